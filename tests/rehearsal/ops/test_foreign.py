"""What belongs to somebody else, or to another call, stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import IMAGE, Life, part, simulated
from rehearsal.ops.simulation import Fault
from rehearsal.ops.test_crash import assert_nothing_left
from rehearsal.ops.test_sweep import HOURS, plant, pools

POOL = "tpu-training-t0-s0"
_HEAD: dict[str, Any] = {"template": {"metadata": {}, "spec": {"containers": []}}}
_CLUSTER = {"headGroupSpec": _HEAD, "workerGroupSpecs": []}
THEIRS = {"spec": {"entrypoint": "theirs", "rayClusterSpec": _CLUSTER}}


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path) as life:
        yield life


def store(life: Life) -> Any:
    return life.cloud.gke.cluster("us-central1", "tpu-training").kubernetes.store


def test_a_pool_of_the_same_name_is_told_and_stays(life: Life) -> None:
    plant(life, POOL, project="their-training", run="tpu-training")
    with pytest.raises(part("errors").InputError, match="is not this run's"):
        life.provision()
    assert pools(life) == {POOL}


def test_a_rayjob_of_the_same_name_is_told_and_stays(life: Life) -> None:
    life.provision()
    store(life).put("rayjobs", "tpu-training", THEIRS, life.cloud.clock.now())
    with pytest.raises(part("errors").InputError, match="is not this run's"):
        life.submit()
    life.teardown()
    assert store(life).get("rayjobs", "tpu-training")["spec"] == THEIRS["spec"]


def test_a_rayjob_that_appears_meanwhile_is_not_overwritten(life: Life) -> None:
    life.provision()
    desk = life.desk()
    kube = desk.kube(desk.place)
    store(life).put("rayjobs", "tpu-training", THEIRS, life.cloud.clock.now())
    body = part("ops.submit").would_submit(desk, IMAGE, life.plan(desk), ())
    with pytest.raises(part("ops.remote").Exists):
        kube.create("rayjobs", body)
    assert store(life).get("rayjobs", "tpu-training")["spec"] == THEIRS["spec"]


def test_a_policy_of_the_same_name_is_told_and_stays(tmp_path: Path) -> None:
    words = ("hardware.generation=7x", "hardware.topology=2x2x2", "train.batch_size=64")
    with simulated(tmp_path, *words) as life:
        theirs = {"region": "us-central1", "topology": "4x4x4", "body": {"name": "x"}}
        life.cloud.gke.policies["tpu-training-2x2x2"] = theirs
        with pytest.raises(part("errors").InputError, match="workload policy .* is not this run's"):
            life.provision()
        assert life.cloud.gke.policies == {"tpu-training-2x2x2": theirs}


def test_another_cluster_s_operation_is_not_cancelled(tmp_path: Path) -> None:
    with simulated(tmp_path, "cloud.attempt_minutes=5") as life:
        other = life.cloud.add_cluster("other", "us-central1")
        machine = life.desk().config.hardware.slice.machine_type
        life.cloud.capacity.set("us-central1-a", "on-demand", machine, "never")
        desk = Life(life.cloud, life.folder, *life.overrides, "cloud.cluster=other").desk()
        owner = part("ops.owned").Owner("their-training", "tpu-training", 1, 2)
        attempt = part("ops.capacity").attempts(desk.config.cloud)[0]
        asked = part("ops.pools").pool_request(desk.config, attempt, 0, owner, 3600)
        operation = life.cloud.gke.create_pool(other, asked)
        life.provision()
        assert operation.running
        assert operation.record.status.name == "RUNNING"


def test_an_earlier_call_s_pools_outlive_a_later_call_s_fault(life: Life) -> None:
    life.provision()
    begin = len(life.cloud.calls) + 1
    life.cloud.faults.add(Fault("denied", at=begin + 1))
    with pytest.raises(part("errors").Refused):
        life.provision()
    assert pools(life) == {POOL}
    life.submit()
    assert life.watch().succeeded


def test_a_run_that_came_again_outlives_a_sweep_that_saw_the_old_one(life: Life) -> None:
    life.provision()
    life.submit()
    life.cloud.clock.sleep(30 * HOURS)
    sweep, desk = part("ops.sweep"), life.desk()
    seen = sweep.look(desk)
    assert {item.fate for item in seen.judgements} == {"remove"}
    life.teardown()
    life.provision()
    life.submit()
    there = set(life.cloud.ours())
    sweep.sweep(desk, seen, life.prices)
    assert set(life.cloud.ours()) >= {name for name in there if not name.startswith("pods")}
    assert life.watch().succeeded


def test_a_sweep_with_other_settings_keeps_a_run_that_may_be_starting(tmp_path: Path) -> None:
    with simulated(tmp_path, "cloud.attempt_minutes=60") as life:
        life.provision()
        life.cloud.clock.sleep(1.5 * HOURS)
        Life(life.cloud, life.folder, *life.overrides, "cloud.attempt_minutes=1").sweep()
        assert pools(life) == {POOL}


def test_things_in_other_namespaces_are_removed_there(life: Life) -> None:
    owner = part("ops.owned").Owner("tpu-training", "x", 1000, 2000)
    body = {"metadata": {"namespace": "team", "labels": owner.labels()}, "spec": {}}
    store(life).put("rayclusters", "x", body, 0.0)
    assert life.sweep().failure() is None
    deleted = [call.path for call in life.cloud.calls if call.method == "DELETE rayclusters"]
    assert deleted == ["/apis/ray.io/v1/namespaces/team/rayclusters/x"]


def test_a_pool_without_tpus_hinders_nothing(life: Life) -> None:
    life.provision()
    cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
    types = part("ops.gke").types
    labels = cluster.pools[POOL].asked.config.resource_labels
    node = types.NodeConfig(machine_type="e2-standard-4", resource_labels=dict(labels))
    pool = types.NodePool(name="by-hand", config=node, locations=["us-central1-a"])
    life.cloud.gke.create_pool(cluster, pool)
    life.cloud.clock.sleep(300)
    desk = life.desk()
    found = part("ops.things").of_project(desk)
    assert [row.chips for row in part("ops.status").rows(desk, found, life.prices)] == [4]
    life.teardown()
    assert_nothing_left(life)


def test_a_pool_of_another_attempt_is_no_second_slice(life: Life) -> None:
    life.provision()
    labels = life.cloud.gke.cluster("us-central1", "tpu-training").pools[POOL]
    kept: dict[str, str | None] = dict(labels.asked.config.resource_labels)
    plant(life, "tpu-training-t1-s0", **kept)
    with pytest.raises(part("ops.remote").Exists, match="made at the same time"):
        life.provision()
    assert pools(life) == {POOL, "tpu-training-t1-s0"}


def test_a_job_waits_for_all_its_slices(tmp_path: Path) -> None:
    words = ("hardware.topology=4x4", "train.batch_size=128", "hardware.slices=2")
    with simulated(tmp_path, *words) as life:
        life.provision()
        cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
        life.cloud.gke.delete_pool(cluster, "tpu-training-t0-s1")
        with pytest.raises(part("errors").InputError, match="has 1 node pools ready and needs 2"):
            life.submit()


def test_a_failed_job_is_not_taken_for_a_new_one(life: Life) -> None:
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no")
    life.provision()
    life.submit()
    with pytest.raises(part("errors").Failure):
        life.watch()
    with pytest.raises(part("errors").Failure, match="has failed before") as caught:
        life.submit()
    assert caught.value.exit_code == 6


def test_a_cluster_that_is_not_there_is_no_clean_teardown(tmp_path: Path) -> None:
    with simulated(tmp_path, "cloud.cluster=typo") as life:
        with pytest.raises(part("errors").NotFound) as caught:
            life.teardown()
        assert caught.value.exit_code == 3


def test_a_pool_that_goes_away_while_it_is_made_ends_the_call(life: Life) -> None:
    cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
    machine = life.desk().config.hardware.slice.machine_type
    life.cloud.capacity.set("us-central1-a", "on-demand", machine, "never")
    desk = life.desk()
    say, desk.say = desk.say, lambda text: cluster.pools.clear() if "waiting" in text else say(text)
    with pytest.raises(part("errors").NotFound, match="went away while it was made"):
        part("ops.provision").provision(desk, life.plan(desk))
    assert pools(life) == set()
