"""The node pool that is asked for, held against what GKE accepts (docs: "About TPUs in GKE")."""

from __future__ import annotations

import pytest
from ops_fixtures import OWNER, settings

from << cookiecutter.package >>.ops.capacity import attempts
from << cookiecutter.package >>.ops.owned import owner_of, pool_name
from << cookiecutter.package >>.ops.pools import needs_policy, node_account, pool_request
from << cookiecutter.package >>.slices import GENERATIONS, machine, topologies

SLICES = [(kind, topology) for kind in GENERATIONS for topology in topologies(kind)]


@pytest.mark.parametrize(("generation", "topology"), SLICES)
def test_every_slice_of_the_catalog(generation: str, topology: str) -> None:
    config = settings(generation, topology)
    one = config.hardware.slice
    pool = pool_request(config, attempts(config.cloud)[0], 0, OWNER, 3600, policy="placed")
    assert pool.config.machine_type == one.machine_type
    assert machine(pool.config.machine_type).chips * pool.initial_node_count == one.chips
    assert (pool.autoscaling.min_node_count, pool.autoscaling.max_node_count) == (0, one.hosts)
    assert list(pool.locations) == ["us-central1-a"]
    if not one.multi_host:
        assert "placement_policy" not in pool
    elif needs_policy(one):
        assert pool.placement_policy.policy_name == "placed"
        assert pool.placement_policy.type_.name == "TYPE_UNSPECIFIED"
    else:
        assert pool.placement_policy.tpu_topology == topology
        assert pool.placement_policy.type_.name == "COMPACT"
    assert pool.config.disk_type.startswith("hyperdisk") == (generation in ("v6e", "7x"))


def test_kinds_are_tried_in_order_each_in_each_zone() -> None:
    config = settings(capacity='["reservation:team-a", "spot"]')
    assert [str(attempt) for attempt in attempts(config.cloud)] == [
        "reservation team-a in us-central1-a",
        "reservation team-a in us-central1-b",
        "spot in us-central1-a",
        "spot in us-central1-b",
    ]


def test_a_reservation_is_named_and_no_other_kind_takes_from_one() -> None:
    config = settings(capacity='["reservation:team-a", "spot"]')
    first, *_, last = attempts(config.cloud)
    reserved = pool_request(config, first, 0, OWNER, 3600).config
    assert reserved.reservation_affinity.consume_reservation_type.name == "SPECIFIC_RESERVATION"
    assert reserved.reservation_affinity.key == "compute.googleapis.com/reservation-name"
    assert list(reserved.reservation_affinity.values) == ["team-a"]
    spot = pool_request(config, last, 0, OWNER, 3600).config
    assert spot.spot
    assert spot.reservation_affinity.consume_reservation_type.name == "NO_RESERVATION"


def test_flex_start_begins_empty_and_ends_by_itself() -> None:
    config = settings(capacity='["flex-start"]')
    pool = pool_request(config, attempts(config.cloud)[0], 0, OWNER, 10**7)
    assert pool.initial_node_count == 0
    assert pool.autoscaling.enabled
    assert not pool.management.auto_repair
    assert pool.config.flex_start
    assert pool.config.max_run_duration.total_seconds() == 7 * 24 * 3600


def test_a_fixed_pool_has_no_autoscaling() -> None:
    config = settings(pools="fixed")
    pool = pool_request(config, attempts(config.cloud)[0], 0, OWNER, 3600)
    assert not pool.autoscaling.enabled
    assert pool.initial_node_count == 1


def test_labels_tell_whose_it_is_and_go_on_the_bill() -> None:
    config = settings()
    pool = pool_request(config, attempts(config.cloud)[0], 0, OWNER, 3600)
    assert owner_of(dict(pool.config.resource_labels)) == OWNER
    assert owner_of(dict(pool.config.labels)) == OWNER
    assert pool.config.service_account == node_account(config)


@pytest.mark.parametrize("run", ["a", "run-1", "x" * 40, "a" + "-b" * 19])
def test_names_fit_and_differ(run: str) -> None:
    names = {pool_name(run, attempt, index) for attempt in range(100) for index in (0, 9, 63)}
    assert len(names) == 300
    assert max(map(len, names)) <= 40
    assert pool_name("x" * 39 + "a", 0, 0) != pool_name("x" * 39 + "b", 0, 0)
