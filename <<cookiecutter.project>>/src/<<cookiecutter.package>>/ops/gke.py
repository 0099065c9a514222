"""Clusters and node pools, through Google's own client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.api_core.client_options import ClientOptions
from google.auth.credentials import Credentials
from google.cloud.container_v1 import ClusterManagerClient, types

from .faults import GarbledError
from .owned import Owner, owner_of
from .remote import Remote

TIMEOUT_SECONDS = 60
Status = types.NodePool.Status


@dataclass(frozen=True)
class Place:
    """A cluster by the names that lead to it."""

    project: str
    location: str
    name: str

    @property
    def path(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/clusters/{self.name}"

    def __str__(self) -> str:
        return f"cluster {self.name} in {self.location} of project {self.project}"


@dataclass(frozen=True)
class Inventory:
    """All clusters of a Google Cloud project, with their pools; `silent` locations gave none."""

    clusters: tuple[types.Cluster, ...]
    silent: tuple[str, ...]


class Gke:
    """One method, one request; `remote` tries again what can be tried again."""

    def __init__(self, remote: Remote, credentials: Credentials, endpoint: str | None) -> None:
        self._remote = remote
        options = ClientOptions(api_endpoint=endpoint) if endpoint else None
        # REST, as gcloud speaks it: one kind of error, and proxies let it through.
        self._client = ClusterManagerClient(
            credentials=credentials, transport="rest", client_options=options
        )

    def clusters(self, project: str) -> Inventory:
        """Every cluster in every location. Raises Failure."""
        parent = f"projects/{project}/locations/-"
        request = types.ListClustersRequest(parent=parent)
        answer = self._ask("list the clusters", parent, self._client.list_clusters, request)
        return Inventory(tuple(answer.clusters), tuple(answer.missing_zones))

    def cluster(self, place: Place) -> types.Cluster:
        request = types.GetClusterRequest(name=place.path)

        def ask() -> types.Cluster:
            return _whole(self._client.get_cluster(request, **_ONCE))

        return self._remote("look at the cluster", str(place), ask)

    def pools(self, place: Place) -> list[types.NodePool]:
        request = types.ListNodePoolsRequest(parent=place.path)
        answer = self._ask("list the pools", str(place), self._client.list_node_pools, request)
        return list(answer.node_pools)

    def create_pool(self, place: Place, pool: types.NodePool) -> None:
        """Asks for the pool; it comes up later. Raises Exists, QuotaExceeded, Stockout, Failure."""
        request = types.CreateNodePoolRequest(parent=place.path, node_pool=pool)
        create = self._client.create_node_pool
        self._ask(f"make node pool {pool.name}", str(place), create, request)

    def delete_pool(self, place: Place, name: str) -> None:
        """Asks to remove the pool; it goes later. Raises Missing, Busy at once, Failure."""
        request = types.DeleteNodePoolRequest(name=f"{place.path}/nodePools/{name}")
        delete = self._client.delete_node_pool
        self._ask(f"remove node pool {name}", str(place), delete, request, wait_for_others=False)

    def operations(self, place: Place) -> list[types.Operation]:
        """Those of the cluster's location, also of other clusters in it."""
        parent = f"projects/{place.project}/locations/{place.location}"
        request = types.ListOperationsRequest(parent=parent)
        answer = self._ask("list operations", parent, self._client.list_operations, request)
        return list(answer.operations)

    def cancel(self, place: Place, operation: str) -> None:
        parent = f"projects/{place.project}/locations/{place.location}"
        request = types.CancelOperationRequest(name=f"{parent}/operations/{operation}")
        cancel = self._client.cancel_operation
        self._ask(f"cancel operation {operation}", str(place), cancel, request)

    def _ask(
        self, what: str, where: str, method: Callable[..., Any], request: Any, **options: bool
    ) -> Any:
        return self._remote(what, where, lambda: method(request, **_ONCE), **options)


# Google's client would try again by itself, on the machine's clock and without a word.
_ONCE: dict[str, Any] = {"retry": None, "timeout": TIMEOUT_SECONDS}


def _whole(cluster: types.Cluster) -> types.Cluster:
    if not (cluster.name and cluster.endpoint):
        raise GarbledError("the answer names no cluster and no endpoint")
    return cluster


def place_of(project: str, cluster: types.Cluster) -> Place:
    return Place(project, cluster.location, cluster.name)


def owner(pool: types.NodePool) -> Owner | None:
    """Whose the pool is; the labels of its machines say it, as they do on Google's bill."""
    return owner_of(dict(pool.config.resource_labels))


def said(pool: types.NodePool) -> str:
    """What GKE says of a pool's state, in one line."""
    spoken = [pool.status_message, *(condition.message for condition in pool.conditions)]
    codes = [condition.code.name for condition in pool.conditions]
    return "; ".join(dict.fromkeys(text for text in (*codes, *spoken) if text))
