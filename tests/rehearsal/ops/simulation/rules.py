"""What GKE refuses of a node pool, and what it accepts and then fails to make.

Source: GKE's pages on TPU node pools, Spot, flex-start and reservations.
"""

from __future__ import annotations

import re
from typing import Any

from google.cloud.container_v1 import types

from rehearsal.ops.simulation.refusal import Refusal

MINIMUM = {
    "v6e": (1, 31, 2, 1115000),
    "7x": (1, 34, 0, 2201000),
}
V4_ZONE = "us-central2-b"
LONGEST_RUN_SECONDS = 7 * 24 * 3600
Compact = types.NodePool.PlacementPolicy.Type.COMPACT
Affinity = types.ReservationAffinity.Type


class Rules:
    """`catalog` is the generated project's slices.py; `policies` are topologies by policy name."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def check(self, pool: types.NodePool, cluster: types.Cluster, policies: dict[str, str]) -> None:
        """Raises Refusal."""
        if cluster.autopilot.enabled:
            raise Refusal(400, "Autopilot clusters do not support mutating node pools.")
        _check_name(pool.name)
        _check_labels(pool.config)
        if not pool.config.machine_type.startswith("ct") and "tpu" not in pool.config.machine_type:
            return
        self._check_tpu(pool, cluster, policies)

    def doom(self, pool: types.NodePool) -> str:
        """Why GKE would take the request and leave the pool in ERROR; empty where it would not."""
        placement = pool.placement_policy
        if pool.config.machine_type.startswith("tpu7x") and placement.type_ == Compact:
            return "COMPACT placement is not supported for tpu7x; use a workload policy."
        return ""

    def hosts(self, pool: types.NodePool, policies: dict[str, str]) -> int:
        """Machines of the slice that the pool is for; 1 for a single host."""
        topology = _topology(pool, policies)
        if not topology:
            return 1
        generation = self._machine(pool).generation
        try:
            return int(self._catalog.find(generation, topology).hosts)
        except ValueError as error:
            raise Refusal(400, f"Invalid TPU topology: {error}") from None

    def _machine(self, pool: types.NodePool) -> Any:
        try:
            return self._catalog.machine(pool.config.machine_type)
        except ValueError as error:
            raise Refusal(400, f"Machine type is not available: {error}") from None

    def _check_tpu(
        self, pool: types.NodePool, cluster: types.Cluster, policies: dict[str, str]
    ) -> None:
        machine = self._machine(pool)
        _check_zone(pool, cluster, machine.generation)
        _check_version(cluster, machine.generation)
        _check_disk(pool, machine.generation)
        self._check_topology(pool, machine, policies)
        hosts = self.hosts(pool, policies)
        _check_counts(pool, hosts)
        _check_capacity(pool)

    def _check_topology(self, pool: types.NodePool, machine: Any, policies: dict[str, str]) -> None:
        placement = pool.placement_policy
        alone = placement.type_ == Compact and not placement.tpu_topology
        if alone or placement.tpu_topology in self.single(machine):
            raise Refusal(400, "TPU topology can't be specified with single-host TPU slice pool.")
        if machine.chips not in self._chips(machine.generation):
            raise Refusal(400, f"Machine type {pool.config.machine_type} does not exist.")
        if placement.policy_name and placement.policy_name not in policies:
            raise Refusal(400, f"Resource policy {placement.policy_name} was not found.")
        topology = _topology(pool, policies)
        if topology and self._find(machine, topology).machine_type != pool.config.machine_type:
            raise Refusal(400, f"Machine type does not support topology {topology}.")
        if topology and machine.generation != "7x" and placement.type_ != Compact:
            raise Refusal(400, "A multi-host TPU slice needs COMPACT placement.")

    def _find(self, machine: Any, topology: str) -> Any:
        try:
            return self._catalog.find(machine.generation, topology)
        except ValueError as error:
            raise Refusal(400, f"Invalid TPU topology: {error}") from None

    def single(self, machine: Any) -> tuple[str, ...]:
        """Topologies of one machine of this type."""
        kind = self._catalog.GENERATIONS[machine.generation]
        return tuple(
            name
            for name in kind.single_host
            if self._catalog.find(machine.generation, name).chips == machine.chips
        )

    def _chips(self, generation: str) -> set[int]:
        kind = self._catalog.GENERATIONS[generation]
        names = (*kind.single_host, *kind.multi_host)
        return {self._catalog.find(generation, name).chips_per_host for name in names}


def _topology(pool: types.NodePool, policies: dict[str, str]) -> str:
    placement = pool.placement_policy
    return placement.tpu_topology or policies.get(placement.policy_name, "")


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise Refusal(400, f"Invalid value for nodePool.name: {name!r}; at most 40 characters.")


def _check_labels(config: types.NodeConfig) -> None:
    for key, value in config.resource_labels.items():
        if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(
            r"[-_a-z0-9]{0,63}", value
        ):
            raise Refusal(400, f"Invalid resource label {key}={value}.")
    for key, value in config.labels.items():
        if not re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value):
            raise Refusal(400, f"Invalid label value {key}={value}.")


def _check_zone(pool: types.NodePool, cluster: types.Cluster, generation: str) -> None:
    if len(pool.locations) != 1:
        raise Refusal(400, "TPU node pools need exactly one location.")
    zone = pool.locations[0]
    region = "-".join(cluster.location.split("-")[:2])
    if not zone.startswith(f"{region}-"):
        raise Refusal(400, f"Location {zone} is not in the region of the cluster, {region}.")
    if (generation == "v4") != (zone == V4_ZONE):
        raise Refusal(400, f"TPU {generation} is not available in {zone}.")


def _check_version(cluster: types.Cluster, generation: str) -> None:
    found = tuple(int(part) for part in re.findall(r"[0-9]+", cluster.current_master_version))
    if found < MINIMUM.get(generation, ()):
        raise Refusal(
            400, f"TPU {generation} needs a newer version than {cluster.current_master_version}."
        )


def _check_disk(pool: types.NodePool, generation: str) -> None:
    if generation in ("v6e", "7x") and not pool.config.disk_type.startswith("hyperdisk"):
        raise Refusal(400, f"Disk type {pool.config.disk_type} is not supported by {generation}.")


def _check_counts(pool: types.NodePool, hosts: int) -> None:
    scaling, empty = pool.autoscaling, pool.config.flex_start
    if pool.initial_node_count != (0 if empty else hosts):
        raise Refusal(400, f"Node count must be {0 if empty else hosts} for this TPU topology.")
    if not scaling.enabled:
        return
    if hosts > 1 and (scaling.min_node_count, scaling.max_node_count) != (0, hosts):
        raise Refusal(400, f"A multi-host TPU pool is autoscaled from 0 to {hosts} nodes.")
    any_zone = types.NodePoolAutoscaling.LocationPolicy.ANY
    if hosts > 1 and scaling.location_policy != any_zone:
        raise Refusal(400, "Autoscaled multi-host TPU pools need location policy ANY.")


def _check_capacity(pool: types.NodePool) -> None:
    config, reserved = pool.config, pool.config.reservation_affinity
    kind = reserved.consume_reservation_type
    specific = kind == Affinity.SPECIFIC_RESERVATION
    if specific and (
        reserved.key != "compute.googleapis.com/reservation-name" or not reserved.values
    ):
        raise Refusal(400, "A specific reservation needs its key and its name.")
    if config.spot and (specific or config.flex_start):
        raise Refusal(400, "Spot excludes reservations and flex-start.")
    if config.flex_start:
        _check_flex_start(pool, kind)
    elif "max_run_duration" in config:
        raise Refusal(400, "max_run_duration needs flex-start.")


def _check_flex_start(pool: types.NodePool, kind: int) -> None:
    seconds = pool.config.max_run_duration.total_seconds()
    if not 0 < seconds <= LONGEST_RUN_SECONDS:
        raise Refusal(400, "Flex-start needs max_run_duration of at most seven days.")
    if pool.management.auto_repair:
        raise Refusal(400, "Flex-start needs auto-repair to be off.")
    if not pool.autoscaling.enabled:
        raise Refusal(400, "Flex-start needs autoscaling.")
    if kind != Affinity.NO_RESERVATION:
        raise Refusal(400, "Flex-start needs reservation affinity NONE.")
    if pool.queued_provisioning.enabled:
        raise Refusal(400, "Flex-start TPU pools exclude queued provisioning.")
