"""A slice and a kind of capacity as the node pool that GKE is asked for."""

from __future__ import annotations

from google.cloud.container_v1 import types
from google.protobuf.duration_pb2 import Duration

from ..config import Config
from ..slices import Slice
from .capacity import Attempt
from .owned import Owner, pool_name

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LONGEST_FLEX_START_SECONDS = 7 * 24 * 3600
DISKS = {"v6e": "hyperdisk-balanced", "7x": "hyperdisk-balanced"}
"""These machines have no persistent disk; the others take pd-balanced."""


def pool_request(
    config: Config, attempt: Attempt, index: int, owner: Owner, seconds: int, policy: str = ""
) -> types.NodePool:
    """The pool of slice number `index`, autoscaled from none to the whole slice or fixed.

    `seconds` is the longest run of a flex-start node; `policy` names the workload policy that a
    multi-host slice of 7x needs.
    """
    one = config.hardware.slice
    pool = types.NodePool(
        name=pool_name(owner.run, attempt.number, index),
        locations=[attempt.zone],
        initial_node_count=0 if attempt.waits_for_pods else one.hosts,
        config=_node(config, attempt, owner, seconds),
        management=types.NodeManagement(auto_repair=not attempt.waits_for_pods, auto_upgrade=True),
    )
    if attempt.waits_for_pods or config.cloud.pools == "autoscaled":
        pool.autoscaling = _autoscaling(one)
    if one.multi_host:
        pool.placement_policy = _placement(one, policy)
    return pool


def needs_policy(one: Slice) -> bool:
    """Whether the machines of this slice are placed by a workload policy, not by COMPACT."""
    return one.multi_host and one.generation == "7x"


def node_account(config: Config) -> str:
    """The service account of the nodes, made by `ops bootstrap`."""
    return f"{config.cloud.cluster}-nodes@{config.cloud.project}.iam.gserviceaccount.com"


def _node(config: Config, attempt: Attempt, owner: Owner, seconds: int) -> types.NodeConfig:
    one = config.hardware.slice
    node = types.NodeConfig(
        machine_type=one.machine_type,
        disk_type=DISKS.get(one.generation, "pd-balanced"),
        labels=owner.labels(),
        resource_labels=owner.labels(),
        oauth_scopes=SCOPES,
        service_account=node_account(config),
        workload_metadata_config=types.WorkloadMetadataConfig(mode="GKE_METADATA"),
        reservation_affinity=_reservation(attempt),
        spot=attempt.kind == "spot",
    )
    if attempt.waits_for_pods:
        node.flex_start = True
        node.max_run_duration = Duration(seconds=min(seconds, LONGEST_FLEX_START_SECONDS))
    return node


def _reservation(attempt: Attempt) -> types.ReservationAffinity:
    if attempt.kind != "reservation":
        return types.ReservationAffinity(
            consume_reservation_type=types.ReservationAffinity.Type.NO_RESERVATION
        )
    return types.ReservationAffinity(
        consume_reservation_type=types.ReservationAffinity.Type.SPECIFIC_RESERVATION,
        key="compute.googleapis.com/reservation-name",
        values=[attempt.reservation],
    )


def _autoscaling(one: Slice) -> types.NodePoolAutoscaling:
    return types.NodePoolAutoscaling(
        enabled=True,
        min_node_count=0,
        max_node_count=one.hosts,
        location_policy=types.NodePoolAutoscaling.LocationPolicy.ANY,
    )


def _placement(one: Slice, policy: str) -> types.NodePool.PlacementPolicy:
    if needs_policy(one):
        return types.NodePool.PlacementPolicy(policy_name=policy)
    return types.NodePool.PlacementPolicy(
        type_=types.NodePool.PlacementPolicy.Type.COMPACT, tpu_topology=one.topology
    )
