"""GKE's part of the world: clusters, node pools, operations, autoscaling, the bill."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.cloud.container_v1 import types

from rehearsal.ops.simulation.capacity import Capacity, words
from rehearsal.ops.simulation.kubernetes import Kubernetes
from rehearsal.ops.simulation.nodes import START_SECONDS, Pool
from rehearsal.ops.simulation.refusal import Refusal, busy
from rehearsal.ops.simulation.rules import Rules

CREATE_SECONDS, DELETE_SECONDS, CANCEL_SECONDS = 60.0, 90.0, 30.0
Status = types.NodePool.Status
Condition = types.StatusCondition
CODES = {"stockout": Condition.Code.GCE_STOCKOUT, "quota": Condition.Code.GCE_QUOTA_EXCEEDED}


@dataclass
class Operation:
    """Work on a cluster; `done` is called once, when it ends."""

    record: types.Operation
    cluster: str
    ends: float
    done: Callable[[], None]

    @property
    def running(self) -> bool:
        return bool(self.record.status != types.Operation.Status.DONE)


@dataclass
class Cluster:
    record: types.Cluster
    kubernetes: Kubernetes
    pools: dict[str, Pool] = field(default_factory=dict)


class Gke:
    def __init__(self, catalog: Any, project: str, now: Callable[[], float]) -> None:
        self.catalog, self.project, self.now = catalog, project, now
        self.rules, self.capacity = Rules(catalog), Capacity()
        self.clusters: dict[tuple[str, str], Cluster] = {}
        self.policies: dict[str, Any] = {}
        self.operations: dict[str, Operation] = {}
        self.missing_zones: list[str] = []
        self.deleted_accounts: set[str] = set()
        self.bill: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def cluster(self, location: str, name: str) -> Cluster:
        found = self.clusters.get((location, name))
        if found is None:
            raise Refusal(404, f"Not found: projects/{self.project}/locations/{location}/{name}.")
        return found

    def listed(self, location: str = "-") -> list[types.Cluster]:
        return [
            self.described(cluster)
            for (where, _), cluster in self.clusters.items()
            if location in ("-", where) and where not in self.missing_zones
        ]

    def described(self, cluster: Cluster) -> types.Cluster:
        found = types.Cluster(cluster.record)
        found.node_pools = [pool.asked for pool in cluster.pools.values()]
        return found

    def pool(self, cluster: Cluster, name: str) -> Pool:
        if name not in cluster.pools:
            raise Refusal(404, f"Not found: node pool {name}.")
        return cluster.pools[name]

    def create_pool(self, cluster: Cluster, asked: types.NodePool) -> Operation:
        topologies = self._topologies()
        self.rules.check(asked, cluster.record, topologies)
        if asked.name in cluster.pools:
            raise Refusal(409, f"Already exists: node pool {asked.name}.")
        self._check_free(cluster)
        pool = self._pool(asked, topologies)
        asked.status = Status.PROVISIONING
        cluster.pools[asked.name] = pool
        given = self._given(pool)
        seconds = float("inf") if given == "never" else CREATE_SECONDS + 30.0 * bool(pool.nodes)
        operation = self._begin("CREATE_NODE_POOL", cluster, asked.name, seconds)
        operation.done = lambda: self._created(pool, given, operation)
        return operation

    def delete_pool(self, cluster: Cluster, name: str) -> Operation:
        pool = self.pool(cluster, name)
        self._check_free(cluster)
        pool.asked.status = Status.STOPPING
        operation = self._begin("DELETE_NODE_POOL", cluster, name, DELETE_SECONDS)
        operation.done = lambda: self._deleted(cluster, pool)
        return operation

    def cancel(self, name: str) -> None:
        if name not in self.operations:
            raise Refusal(404, f"Not found: operation {name}.")
        operation = self.operations[name]
        if operation.running:
            operation.record.status = types.Operation.Status.ABORTING
            operation.ends = self.now() + CANCEL_SECONDS

    def tick(self, seconds: float) -> None:
        now = self.now()
        self.capacity.tick(now)
        for operation in [found for found in self.operations.values() if found.running]:
            if operation.ends <= now:
                operation.record.status = types.Operation.Status.DONE
                operation.done()
        for cluster in self.clusters.values():
            cluster.kubernetes.tick(now)
            self._scale(cluster, now)
        burning = self.burning()
        for owner, chips in burning.items():
            self.bill[owner] += int(chips * seconds)
            self.most[owner] = max(self.most[owner], chips)

    def burning(self) -> dict[str, int]:
        """Chips that are on, by whose they are."""
        found: Counter[str] = Counter()
        for cluster in self.clusters.values():
            for pool in cluster.pools.values():
                found[pool.owner] += pool.chips * len(pool.nodes)
            found.update(cluster.kubernetes.chips())
        return {owner: chips for owner, chips in found.items() if chips}

    def preempt(self, cluster: Cluster, name: str) -> None:
        """Takes the machines of a Spot pool away, as one."""
        self._empty(cluster, self.pool(cluster, name))

    def all_pools(self) -> Iterator[tuple[Cluster, Pool]]:
        for cluster in self.clusters.values():
            for pool in cluster.pools.values():
                yield cluster, pool

    def _topologies(self) -> dict[str, str]:
        return {name: found["topology"] for name, found in self.policies.items()}

    def _pool(self, asked: types.NodePool, topologies: dict[str, str]) -> Pool:
        try:
            machine = self.catalog.machine(asked.config.machine_type)
        except ValueError:
            return Pool(asked, max(1, asked.initial_node_count), 0, "", "")
        kind = self.catalog.GENERATIONS[machine.generation]
        placement = asked.placement_policy
        topology = placement.tpu_topology or topologies.get(placement.policy_name, "")
        topology = topology or self.rules.single(machine)[0]
        hosts = self.rules.hosts(asked, topologies)
        return Pool(asked, hosts, machine.chips, topology, kind.accelerator_label)

    def _given(self, pool: Pool) -> str:
        """What Compute Engine says to the machines that the pool begins with."""
        if doom := self.rules.doom(pool.asked):
            return doom
        if pool.asked.config.service_account in self.deleted_accounts:
            return "GKE_SERVICE_ACCOUNT_DELETED"
        if not pool.asked.initial_node_count or not pool.chips:
            return ""
        return self.capacity.take(pool.key, pool.hosts)

    def _created(self, pool: Pool, given: str, operation: Operation) -> None:
        if not given:
            pool.asked.status = Status.RUNNING
            if pool.asked.initial_node_count and pool.chips:
                pool.begin(self.now())
            return
        zone, _, machine_type = pool.key
        known = given in ("stockout", "quota")
        text = words(given, zone, machine_type) if known else f"Cancelled or failed: {given}"
        pool.asked.status, pool.asked.status_message = Status.ERROR, text
        code = CODES.get(given, Condition.Code.UNKNOWN)
        pool.asked.conditions = [Condition(code=code, message=text)]
        operation.record.error.message = text
        operation.record.error.code = 8

    def _deleted(self, cluster: Cluster, pool: Pool) -> None:
        self._empty(cluster, pool)
        del cluster.pools[pool.asked.name]

    def _empty(self, cluster: Cluster, pool: Pool) -> None:
        self.capacity.give_back(pool.key, len(pool.nodes))
        for node in pool.nodes:
            cluster.kubernetes.lose(node.pod)
        pool.nodes = []

    def _scale(self, cluster: Cluster, now: float) -> None:
        for pool in cluster.pools.values():
            if pool.growing_until is not None and pool.growing_until <= now:
                pool.begin(now)
            if pool.over(now) or (pool.asked.autoscaling.enabled and pool.idle(now)):
                self._empty(cluster, pool)
        for pod, selector, chips in cluster.kubernetes.waiting():
            self._place(cluster, pod, selector, chips, now)

    def _place(
        self, cluster: Cluster, pod: str, selector: dict[str, str], chips: int, now: float
    ) -> None:
        running = (Status.RUNNING,)
        fitting = [
            pool
            for pool in cluster.pools.values()
            if pool.asked.status in running and pool.fits(selector, chips)
        ]
        for pool in fitting:
            if node := pool.free():
                node.pod = pod
                cluster.kubernetes.place(pod, node.name)
                return
        for pool in fitting:
            self._grow(cluster, pool, pod, now)

    def _grow(self, cluster: Cluster, pool: Pool, pod: str, now: float) -> None:
        if pool.nodes or pool.growing_until is not None or not pool.asked.autoscaling.enabled:
            return
        refused = self.capacity.take(pool.key, pool.hosts)
        if not refused:
            pool.growing_until = now + START_SECONDS
        elif refused != "queue":
            zone, _, machine_type = pool.key
            text = words(refused, zone, machine_type)
            cluster.kubernetes.event(
                pod, "FailedScaleUp", f"Node scale up in {zone} failed: {text}"
            )

    def _check_free(self, cluster: Cluster) -> None:
        for operation in self.operations.values():
            if operation.running and operation.cluster == cluster.record.self_link:
                raise busy(operation.record.name)

    def _begin(self, kind: str, cluster: Cluster, target: str, seconds: float) -> Operation:
        name = f"operation-{next(self._numbers)}"
        record = types.Operation(
            name=name,
            operation_type=kind,
            status=types.Operation.Status.RUNNING,
            location=cluster.record.location,
            target_link=f"{cluster.record.self_link}/nodePools/{target}",
        )
        link = cluster.record.self_link
        operation = Operation(record, link, self.now() + seconds, lambda: None)
        self.operations[name] = operation
        return operation
