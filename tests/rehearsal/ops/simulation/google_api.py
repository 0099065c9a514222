"""The paths of GKE's and Compute Engine's REST APIs, onto the simulated world."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.cloud.container_v1 import types
from google.protobuf.json_format import ParseError

from rehearsal.ops.simulation.gke import Gke, Operation
from rehearsal.ops.simulation.refusal import Refusal

PAGE = 2
Answer = dict[str, Any]
_CLUSTERS = r"/v1/projects/[^/]+/locations/(?P<location>[^/]+)"
_POLICIES = r"/compute/v1/projects/[^/]+"


class GoogleApi:
    """`handle` answers a request, or raises Refusal; `name` is what Google calls the method."""

    def __init__(self, gke: Gke) -> None:
        self._gke = gke
        cluster = _CLUSTERS + r"/clusters/(?P<cluster>[^/]+)"
        regional = _POLICIES + r"/regions/(?P<region>[^/]+)"
        self._routes: list[tuple[str, str, str, Callable[..., Answer]]] = [
            ("GET", _CLUSTERS + "/clusters", "ListClusters", self._list_clusters),
            ("POST", _CLUSTERS + "/clusters", "CreateCluster", self._create_cluster),
            ("GET", cluster, "GetCluster", self._get_cluster),
            ("GET", cluster + "/nodePools", "ListNodePools", self._list_pools),
            ("POST", cluster + "/nodePools", "CreateNodePool", self._create_pool),
            ("GET", cluster + r"/nodePools/(?P<pool>[^/]+)", "GetNodePool", self._get_pool),
            ("DELETE", cluster + r"/nodePools/(?P<pool>[^/]+)", "DeleteNodePool", self._delete),
            ("GET", _CLUSTERS + "/operations", "ListOperations", self._list_operations),
            ("GET", _CLUSTERS + r"/operations/(?P<name>[^/:]+)", "GetOperation", self._operation),
            ("POST", _CLUSTERS + r"/operations/(?P<name>[^/:]+):cancel", "Cancel", self._cancel),
            ("GET", _CLUSTERS + "/serverConfig", "GetServerConfig", self._server_config),
            ("POST", regional + "/resourcePolicies", "InsertPolicy", self._insert_policy),
            (
                "DELETE",
                regional + r"/resourcePolicies/(?P<policy>[^/]+)",
                "DeletePolicy",
                self._delete_policy,
            ),
            ("GET", _POLICIES + "/aggregated/resourcePolicies", "ListPolicies", self._policies),
        ]

    def route(self, verb: str, path: str) -> tuple[str, Callable[[dict[str, str], bytes], Answer]]:
        """Google's name of the method, and what answers it."""
        for method, pattern, name, handler in self._routes:
            if method == verb and (match := re.fullmatch(pattern, path)):
                return name, partial(_called, handler, match.groupdict())
        return f"{verb} {path}", _unknown(verb, path)

    def _list_clusters(self, location: str, **_: Any) -> Answer:
        found = types.ListClustersResponse(
            clusters=self._gke.listed(location), missing_zones=self._gke.missing_zones
        )
        return _plain(types.ListClustersResponse, found)

    def _create_cluster(self, **_: Any) -> Answer:
        raise Refusal(403, "Clusters are made by `add_cluster` here.")

    def _get_cluster(self, location: str, cluster: str, **_: Any) -> Answer:
        found = self._gke.described(self._gke.cluster(location, cluster))
        return _plain(types.Cluster, found)

    def _list_pools(self, location: str, cluster: str, **_: Any) -> Answer:
        pools = [pool.asked for pool in self._gke.cluster(location, cluster).pools.values()]
        found = types.ListNodePoolsResponse(node_pools=pools)
        return _plain(types.ListNodePoolsResponse, found)

    def _create_pool(self, location: str, cluster: str, body: bytes, **_: Any) -> Answer:
        try:
            request = types.CreateNodePoolRequest.from_json(body, ignore_unknown_fields=False)
        except (ParseError, GoogleAPICallError) as error:
            raise Refusal(400, f"Invalid JSON payload received. {error}") from None
        where = self._gke.cluster(location, cluster)
        return _operation(self._gke.create_pool(where, request.node_pool))

    def _get_pool(self, location: str, cluster: str, pool: str, **_: Any) -> Answer:
        found = self._gke.pool(self._gke.cluster(location, cluster), pool)
        return _plain(types.NodePool, found.asked)

    def _delete(self, location: str, cluster: str, pool: str, **_: Any) -> Answer:
        return _operation(self._gke.delete_pool(self._gke.cluster(location, cluster), pool))

    def _list_operations(self, location: str, **_: Any) -> Answer:
        found = [
            operation.record
            for operation in self._gke.operations.values()
            if location in ("-", operation.record.location)
        ]
        return _plain(types.ListOperationsResponse, types.ListOperationsResponse(operations=found))

    def _operation(self, name: str, **_: Any) -> Answer:
        if name not in self._gke.operations:
            raise Refusal(404, f"Not found: operation {name}.")
        return _operation(self._gke.operations[name])

    def _cancel(self, name: str, **_: Any) -> Answer:
        self._gke.cancel(name)
        return {}

    def _server_config(self, **_: Any) -> Answer:
        return {"defaultClusterVersion": "1.34.1-gke.3084001"}

    def _insert_policy(self, region: str, body: bytes, **_: Any) -> Answer:
        asked = json.loads(body)
        name, policy = asked["name"], asked["workloadPolicy"]
        if name in self._gke.policies:
            raise Refusal(409, f"The resource 'resourcePolicies/{name}' already exists")
        if policy.get("type") != "HIGH_THROUGHPUT" or not policy.get("acceleratorTopology"):
            raise Refusal(400, "Invalid value for field 'resource.workloadPolicy'")
        self._gke.policies[name] = {
            "region": region,
            "topology": policy["acceleratorTopology"],
            "body": {**asked, "kind": "compute#resourcePolicy"},
        }
        return {"kind": "compute#operation", "name": f"operation-{name}", "status": "DONE"}

    def _delete_policy(self, policy: str, **_: Any) -> Answer:
        if policy not in self._gke.policies:
            raise Refusal(404, f"The resource 'resourcePolicies/{policy}' was not found")
        for _cluster, pool in self._gke.all_pools():
            if pool.asked.placement_policy.policy_name == policy:
                raise Refusal(
                    400,
                    f"The resource_policy resource '{policy}' is already being used by "
                    f"'{pool.asked.name}'",
                    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
                )
        del self._gke.policies[policy]
        return {"kind": "compute#operation", "name": f"operation-{policy}", "status": "DONE"}

    def _policies(self, query: dict[str, str], **_: Any) -> Answer:
        """Pages of two, so that a page token is met early."""
        names = sorted(self._gke.policies)
        begin = int(query.get("pageToken") or 0)
        items: dict[str, Any] = {}
        for name in names[begin : begin + PAGE]:
            found = self._gke.policies[name]
            group = items.setdefault(f"regions/{found['region']}", {"resourcePolicies": []})
            group["resourcePolicies"].append(found["body"])
        more = {"nextPageToken": str(begin + PAGE)} if begin + PAGE < len(names) else {}
        return {"kind": "compute#resourcePolicyAggregatedList", "items": items, **more}


def _called(
    handler: Callable[..., Answer], words: dict[str, str], query: dict[str, str], body: bytes
) -> Answer:
    return handler(query=query, body=body, **words)


def _operation(operation: Operation) -> Answer:
    return _plain(types.Operation, operation.record)


def _plain(kind: Any, found: Any) -> Answer:
    text = kind.to_json(
        found, use_integers_for_enums=False, always_print_fields_with_no_presence=False
    )
    answer: Answer = json.loads(text)
    return answer


def _unknown(verb: str, path: str) -> Callable[[dict[str, str], bytes], Answer]:
    def refuse(query: dict[str, str], body: bytes) -> Answer:
        raise Refusal(404, f"Nothing answers {verb} {path} here.")

    return refuse
