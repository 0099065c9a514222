"""The simulated GKE refuses what GKE refuses; what `ops` asks for is held against it elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.simulation.refusal import Refusal

Change = Callable[[Any], None]


def pool(life: Life, topology: str = "2x2", kind: str = "on-demand", **hardware: str) -> Any:
    """What `ops` would ask for."""
    other = Life(
        life.cloud,
        life.folder,
        f"hardware.topology={topology}",
        "train.batch_size=110592",
        f'cloud.capacity=["{kind}"]',
        *(f"hardware.{key}={value}" for key, value in hardware.items()),
    )
    config = other.desk().config
    owner = part("ops.owned").Owner("tpu-training", "r", 1, 2)
    attempt = part("ops.capacity").attempts(config.cloud)[0]
    return part("ops.pools").pool_request(config, attempt, 0, owner, 3600, "placed")


def ask(life: Life, asked: Any) -> None:
    life.cloud.gke.create_pool(life.cloud.gke.cluster("us-central1", "tpu-training"), asked)


def change(**values: Any) -> Change:
    """Sets fields by path, with __ for the dot."""

    def apply(asked: Any) -> None:
        for path, value in values.items():
            *parents, last = path.split("__")
            target = asked
            for name in parents:
                target = getattr(target, name)
            setattr(target, last, value)

    return apply


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path) as life:
        yield life


WRONG_SINGLE = {
    "tpu_topology": change(placement_policy__tpu_topology="2x2"),
    "placement": change(placement_policy__type_="COMPACT"),
    "two machines": change(initial_node_count=2),
    "machine": change(config__machine_type="ct5lp-hightpu-3t"),
    "no machine": change(config__machine_type="tpu9-standard-4t"),
    "zone": change(locations=["europe-west4-a"]),
    "no zone": change(locations=[]),
    "long name": change(name="x" * 41),
    "upper case name": change(name="Pool"),
    "label": change(config__resource_labels={"expires-at": "12:30"}),
    "label key": change(config__resource_labels={"Managed-By": "x"}),
    "node label": change(config__labels={"run": "a b"}),
    "reservation without a name": change(
        config__reservation_affinity__consume_reservation_type="SPECIFIC_RESERVATION"
    ),
    "longest run": change(config__max_run_duration=Duration(seconds=60)),
}
WRONG_MULTI = {
    "too few": change(initial_node_count=3),
    "most": change(autoscaling__max_node_count=5),
    "least": change(autoscaling__min_node_count=1),
    "balanced": change(autoscaling__location_policy="BALANCED"),
    "no placement": change(placement_policy__type_="TYPE_UNSPECIFIED"),
    "topology": change(placement_policy__tpu_topology="5x5"),
    "two zones": change(locations=["us-central1-a", "us-central1-b"]),
}
WRONG_FLEX = {
    "no end": change(config__max_run_duration=Duration(seconds=0)),
    "eight days": change(config__max_run_duration=Duration(seconds=8 * 24 * 3600)),
    "repair": change(management__auto_repair=True),
    "not empty": change(initial_node_count=1),
    "no autoscaling": change(autoscaling__enabled=False),
    "affinity": change(config__reservation_affinity__consume_reservation_type="ANY_RESERVATION"),
    "spot": change(config__spot=True),
    "queued": change(queued_provisioning__enabled=True),
}


@pytest.mark.parametrize("name", WRONG_SINGLE)
def test_wrong_for_one_host(life: Life, name: str) -> None:
    asked = pool(life)
    WRONG_SINGLE[name](asked)
    with pytest.raises(Refusal) as caught:
        ask(life, asked)
    assert caught.value.code == 400


@pytest.mark.parametrize("name", WRONG_MULTI)
def test_wrong_for_several_hosts(life: Life, name: str) -> None:
    asked = pool(life, "4x4")
    WRONG_MULTI[name](asked)
    with pytest.raises(Refusal) as caught:
        ask(life, asked)
    assert caught.value.code == 400


@pytest.mark.parametrize("name", WRONG_FLEX)
def test_wrong_for_flex_start(life: Life, name: str) -> None:
    asked = pool(life, kind="flex-start")
    WRONG_FLEX[name](asked)
    with pytest.raises(Refusal) as caught:
        ask(life, asked)
    assert caught.value.code == 400


def test_compact_placement_of_7x_ends_in_error(life: Life) -> None:
    life.cloud.gke.policies["placed"] = {"region": "us-central1", "topology": "2x2x2", "body": {}}
    asked = pool(life, "2x2x2", generation="7x")
    asked.placement_policy = {"type_": "COMPACT", "tpu_topology": "2x2x2"}
    ask(life, asked)
    life.cloud.clock.sleep(200)
    assert asked.status.name == "ERROR"


def test_7x_needs_its_policy(life: Life) -> None:
    with pytest.raises(Refusal, match="placed was not found"):
        ask(life, pool(life, "2x2x2", generation="7x"))


@pytest.mark.parametrize(("generation", "topology"), [("v6e", "2x2"), ("7x", "2x2x1")])
def test_old_clusters_have_no_new_tpus(tmp_path: Path, generation: str, topology: str) -> None:
    with (
        simulated(tmp_path, version="1.30.0-gke.1747000") as life,
        pytest.raises(Refusal, match="newer version"),
    ):
        ask(life, pool(life, topology, generation=generation))


def test_autopilot_takes_no_pools(tmp_path: Path) -> None:
    with simulated(tmp_path, autopilot=True) as life, pytest.raises(Refusal, match="Autopilot"):
        ask(life, pool(life))


def test_one_operation_at_a_time_and_no_deletion_of_what_is_being_made(life: Life) -> None:
    asked = pool(life)
    ask(life, asked)
    cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
    second = pool(life)
    second.name = "second"
    for work in (
        lambda: ask(life, second),
        lambda: life.cloud.gke.delete_pool(cluster, asked.name),
    ):
        with pytest.raises(Refusal) as caught:
            work()
        assert caught.value.status == "FAILED_PRECONDITION"
    life.cloud.clock.sleep(200)
    ask(life, second)


def test_every_slice_that_ops_asks_for_is_accepted(tmp_path: Path) -> None:
    slices = part("slices")
    for generation in slices.GENERATIONS:
        for topology in slices.topologies(generation):
            region = "us-central2" if generation == "v4" else "us-central1"
            with simulated(tmp_path) as life:
                where = life.cloud.add_cluster("there", region)
                life.cloud.gke.policies["placed"] = {"topology": topology, "body": {}}
                asked = pool(life, topology, generation=generation)
                asked.locations = [f"{region}-b"]
                life.cloud.gke.create_pool(where, asked)
                life.cloud.clock.sleep(200)
                assert asked.status.name == "RUNNING"
                assert life.cloud.burning() == {"r": slices.find(generation, topology).chips}


def test_the_bill_counts_chips_from_birth_to_death(life: Life) -> None:
    asked = pool(life, "4x4")
    asked.autoscaling.enabled = False
    ask(life, asked)
    life.cloud.clock.sleep(3690)
    cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
    life.cloud.gke.delete_pool(cluster, asked.name)
    life.cloud.clock.sleep(3600)
    assert life.cloud.bill()["r"] == pytest.approx(16 * 3690, rel=0.05)
    assert life.cloud.burning() == {}
