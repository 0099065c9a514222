"""Everything of ours that exists: Ray jobs, Ray clusters, node pools, workload policies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from re import fullmatch
from typing import Any

from google.cloud.container_v1 import types

from ..errors import Failure
from ..slices import UnknownSliceError, machine
from . import gke
from .desk import Desk
from .gke import Place, place_of
from .job import job_of
from .owned import LIFETIME, MANAGED_BY, Owner, owner_of, selector
from .policies import Policy
from .remote import Missing

Object = dict[str, Any]
ORDER = ("rayjobs", "rayclusters", "pool", "policy")
"""Kinds in the order in which they are removed: what holds chips goes before what places them."""


@dataclass(frozen=True)
class Thing:
    """One thing of ours. `place` of a policy names its region and no cluster.

    `state` is GKE's or KubeRay's word; `living` is True for a job that has not ended and for a Ray
    cluster that no job made.
    """

    kind: str
    name: str
    place: Place
    owner: Owner
    state: str
    living: bool = False
    body: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        kind = {"rayjobs": "RayJob", "rayclusters": "RayCluster", "pool": "node pool"}
        at = f" ({self.place.name})" if self.place.name else ""
        return f"{kind.get(self.kind, 'workload policy')} {self.name}{at}"


@dataclass
class Found:
    """`unseen` says what could not be looked at; nothing may be concluded about it."""

    things: list[Thing] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    faults: list[Failure] = field(default_factory=list)
    blind: set[Place] = field(default_factory=set)
    """Clusters whose Ray jobs could not be listed."""


def of_project(desk: Desk) -> Found:
    """All of this project's things, in every cluster of the Google Cloud project. Raises Failure
    where the clusters themselves cannot be listed."""
    answer = desk.gke.clusters(desk.project)
    found = Found(unseen=[f"location {name} did not answer" for name in answer.silent])
    for cluster in answer.clusters:
        place = place_of(desk.project, cluster)
        pools = _pools(desk, place, cluster.node_pools)
        found.things += pools
        if pools or place == desk.place or _is_ours(desk, cluster):
            _look(found, place, lambda p=place, c=cluster: _ray(desk, p, c))
    _look(found, None, lambda: _policies(desk))
    return found


def of_run(desk: Desk) -> Found:
    """The things of the run in run.toml, in its cluster.

    Raises NotFound where there is no such cluster; other faults stand in `Found.faults`.
    """
    found, place = Found(), desk.place
    _look(found, None, lambda: pools_of_run(desk), gone=False)
    _look(found, place, lambda: _ray(desk, place, None))
    _look(found, None, lambda: policies_of_run(desk))
    found.things = [thing for thing in found.things if thing.owner.run == desk.run]
    return found


def pools_of_run(desk: Desk) -> list[Thing]:
    """The node pools of the run in run.toml. Raises Failure."""
    pools = _pools(desk, desk.place, desk.gke.pools(desk.place))
    return [pool for pool in pools if pool.owner.run == desk.run]


def policies_of_run(desk: Desk) -> list[Thing]:
    """The workload policies of the run in run.toml. Raises Failure."""
    return [policy for policy in _policies(desk) if policy.owner.run == desk.run]


def _look(found: Found, place: Place | None, look: Any, gone: bool = True) -> None:
    """`gone`: a cluster that is not there (any more) holds nothing."""
    try:
        found.things += look()
    except Missing:
        if not gone:
            raise
    except Failure as failure:
        found.faults.append(failure)
        found.unseen.append(failure.what)
        if place is not None:
            found.blind.add(place)


def _pools(desk: Desk, place: Place, pools: Iterable[types.NodePool]) -> list[Thing]:
    return [
        Thing("pool", pool.name, place, owner, pool.status.name, body=pool)
        for pool in pools
        if (owner := _mine(desk, gke.owner(pool)))
    ]


def _ray(desk: Desk, place: Place, cluster: types.Cluster | None) -> list[Thing]:
    kube, mine = desk.kube(place, cluster), selector(project=desk.label)
    jobs = [_job(place, found) for found in kube.objects("rayjobs", mine)]
    clusters = [_cluster(place, found) for found in kube.objects("rayclusters", mine)]
    return [thing for thing in [*jobs, *clusters] if thing is not None]


def _job(place: Place, found: Object) -> Thing | None:
    job, owner = job_of(found), _owner(found)
    state = f"{job.deployment}/{job.status}"
    if owner is None:
        return None
    return Thing("rayjobs", job.name, place, owner, state, not job.ended, found)


def _cluster(place: Place, found: Object) -> Thing | None:
    owner, name = _owner(found), found["metadata"]["name"]
    state = (found.get("status") or {}).get("state", "")
    by_job = bool(found["metadata"].get("ownerReferences"))
    if owner is None:
        return None
    return Thing("rayclusters", name, place, owner, state, not by_job, found)


def _policies(desk: Desk) -> list[Thing]:
    return [
        Thing("policy", policy.name, _region(desk, policy), policy.owner, "", body=policy)
        for policy in desk.policies.all(desk.project)
        if _mine(desk, policy.owner)
    ]


def _region(desk: Desk, policy: Policy) -> Place:
    return Place(desk.project, policy.region, "")


def _owner(found: Object) -> Owner | None:
    """By its labels; what was applied from a file, without a date, expires by its age."""
    about = found["metadata"]
    owner = owner_of(about.get("labels") or {})
    lifetime = (about.get("annotations") or {}).get(LIFETIME, "")
    if owner is None or owner.expires_at is not None or not fullmatch("[0-9]{1,9}", lifetime):
        return owner
    made = int(datetime.fromisoformat(about["creationTimestamp"]).timestamp())
    return replace(owner, created_at=made, expires_at=made + int(lifetime))


def _mine(desk: Desk, owner: Owner | None) -> Owner | None:
    return owner if owner is not None and owner.project == desk.label else None


def _is_ours(desk: Desk, cluster: types.Cluster) -> bool:
    labels = dict(cluster.resource_labels)
    return labels.get("managed-by") == MANAGED_BY and labels.get("project") == desk.label


def chips_of(pool: types.NodePool) -> int:
    """Chips of a pool with all its machines."""
    hosts = pool.autoscaling.max_node_count if pool.autoscaling.enabled else pool.initial_node_count
    try:
        return machine(pool.config.machine_type).chips * hosts
    except UnknownSliceError:
        return 0  # labelled by hand: it is removed like the rest
