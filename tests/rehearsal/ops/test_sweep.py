"""The sweep: takes what is forgotten, and nothing else."""

from __future__ import annotations

import copy
import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.simulation import Fault
from rehearsal.ops.test_crash import JOB_SECONDS

HOURS = 3600


def plant(life: Life, name: str, cluster: Any = None, **labels: str | None) -> str:
    """A pool like a run's, made by hand with other labels; None removes one."""
    desk = life.desk()
    owned, now = part("ops.owned"), int(life.cloud.clock.now())
    who = owned.Owner("tpu-training", name, now - 24 * HOURS, now - HOURS)
    attempt = part("ops.capacity").attempts(desk.config.cloud)[0]
    pool = part("ops.pools").pool_request(desk.config, attempt, 0, who, 3600)
    pool.name = name
    kept = {**who.labels(), **labels}
    for target in (pool.config.resource_labels, pool.config.labels):
        target.clear()
        target.update({key: value for key, value in kept.items() if value is not None})
    where = cluster or life.cloud.gke.cluster("us-central1", "tpu-training")
    life.cloud.gke.create_pool(where, copy.deepcopy(pool))
    life.cloud.clock.sleep(200)
    return name


def pools(life: Life) -> set[str]:
    return {pool.asked.name for _, pool in life.cloud.gke.all_pools()}


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path) as life:
        life.cloud.jobs.behave("", seconds=JOB_SECONDS)
        yield life


def untouchables(life: Life) -> set[str]:
    later = str(int(life.cloud.clock.now()) + 24 * HOURS)
    return {
        plant(life, "foreign", **{"managed-by": None, "project": None, "run": None}),
        plant(life, "other-manager", **{"managed-by": "terraform"}),
        plant(life, "other-project", project="their-training"),
        plant(life, "no-creation", **{"created-at": None, "expires-at": later}),
        plant(life, "no-expiry", **{"expires-at": None}),
        plant(life, "strange-time", **{"expires-at": "tomorrow"}),
        plant(
            life,
            "starting",
            **{"created-at": str(int(life.cloud.clock.now()))} | {"expires-at": later},
        ),
    }


def test_untouched_is_what_is_not_ours_not_expired_or_without_a_time(life: Life) -> None:
    safe = untouchables(life)
    doomed = {plant(life, "forgotten"), plant(life, "older", **{"created-at": "1000"})}
    assert safe | doomed == pools(life)
    done = life.sweep()
    assert pools(life) == safe
    assert {item.thing.name for item in done.those("unclear")} == {
        "no-creation",
        "no-expiry",
        "strange-time",
    }
    failure = done.failure()
    assert failure is not None
    assert failure.exit_code == 8
    assert "no-expiry" in failure.what


def test_a_living_run_is_kept_whatever_its_age_until_it_expires(life: Life) -> None:
    life.cloud.jobs.behave("", seconds=90_000)
    life.provision()
    life.submit()
    life.cloud.clock.sleep(1.5 * HOURS)
    before = set(life.cloud.ours())
    assert {item.fate for item in life.sweep().judgements} == {"keep"}
    assert set(life.cloud.ours()) == before
    life.cloud.clock.sleep(24 * HOURS)
    assert life.sweep().failure() is None
    assert life.cloud.ours() == []


def test_a_run_without_a_job_is_kept_while_it_may_be_starting(life: Life) -> None:
    life.provision()
    grace = life.plan(life.desk()).waiting_seconds
    life.cloud.clock.sleep(grace / 2)
    life.sweep()
    assert len(pools(life)) == 1
    life.cloud.clock.sleep(grace + 2 * HOURS)
    life.sweep()
    assert pools(life) == set()


def test_a_failed_job_s_evidence_is_kept(life: Life) -> None:
    life.cloud.jobs.behave("", seconds=20, ends="FAILED", message="no", log="Traceback\nboom")
    life.provision()
    life.submit()
    with pytest.raises(part("errors").Failure):
        life.watch()
    life.cloud.clock.sleep(12 * HOURS)
    assert life.sweep().failure() is None
    logs = list(Path(life.folder).glob("*/failures/*/*.log"))
    assert "boom" in "".join(path.read_text() for path in logs)


def test_looking_changes_nothing(life: Life) -> None:
    plant(life, "forgotten")
    desk = life.desk()
    seen = part("ops.sweep").look(desk)
    assert [item.fate for item in seen.judgements] == ["remove"]
    assert pools(life) == {"forgotten"}


def test_a_silent_location_is_no_empty_one(life: Life) -> None:
    life.cloud.add_cluster("far", "europe-west4")
    plant(life, "forgotten")
    life.cloud.gke.missing_zones.append("europe-west4")
    failure = life.sweep().failure()
    assert failure is not None and "europe-west4 did not answer" in failure.what
    assert pools(life) == set()


def test_a_cluster_that_does_not_answer_keeps_what_has_not_expired(life: Life) -> None:
    later = str(int(life.cloud.clock.now()) + 24 * HOURS)
    plant(life, "young", **{"expires-at": later})
    plant(life, "forgotten")
    life.cloud.faults.add(Fault("unavailable", method="GET rayjobs list", times=10_000))
    done = life.sweep()
    assert pools(life) == {"young"}
    failure = done.failure()
    assert failure is not None and "its cluster does not say" in failure.what


def test_what_survives_is_told(life: Life) -> None:
    plant(life, "forgotten")
    life.cloud.faults.add(Fault("denied", method="DeleteNodePool", times=10_000))
    failure = life.sweep().failure()
    assert failure is not None and failure.exit_code == 8
    assert "forgotten" in failure.what and "Permission denied" in failure.what


def test_autopilot_s_forgotten_job_goes_with_its_nodes(tmp_path: Path) -> None:
    words = ("cloud.cluster_mode=autopilot", 'cloud.capacity=["spot"]')
    with simulated(tmp_path, *words, autopilot=True) as life:
        life.cloud.jobs.behave("", seconds=10**7)
        life.submit()
        life.cloud.clock.sleep(3600)
        assert life.cloud.burning() == {"tpu-training": 4}
        life.cloud.clock.sleep(24 * HOURS)
        assert life.sweep().failure() is None
        assert life.cloud.ours() == []
        assert life.cloud.burning() == {}


def test_forgotten_policies_go_after_their_pools(tmp_path: Path) -> None:
    words = ("hardware.generation=7x", "hardware.topology=2x2x2", "train.batch_size=64")
    with simulated(tmp_path, *words) as life:
        for name in ("a", "b", "c"):
            Life(life.cloud, life.folder, *life.overrides, f"run.name={name}").provision()
        assert len(life.cloud.gke.policies) == 3, "more than a page of them"
        life.cloud.clock.sleep(100 * HOURS)
        assert life.sweep().failure() is None
        assert life.cloud.ours() == []


def test_two_hundred_clusters(life: Life) -> None:
    """2,000 pools, 300 of them ours and forgotten: calls grow with clusters, not with pools."""
    clusters = [life.cloud.add_cluster(f"c{number}", "us-central1") for number in range(199)]
    clusters.append(life.cloud.gke.cluster("us-central1", "tpu-training"))
    for number in range(2000):
        mine = {} if number % 20 < 3 else {"managed-by": "someone"}
        fill(life, clusters[number % 200], f"p{number}", mine)
    assert len(pools(life)) == 2000
    begin, began = len(life.cloud.calls), life.cloud.clock.now()
    done = life.sweep()
    assert done.failure() is None
    assert len(done.removed.gone) == 300
    assert len(pools(life)) == 1700
    calls = Counter(call.method for call in life.cloud.calls[begin:])
    seconds = life.cloud.clock.now() - began
    print(f"{sum(calls.values())} calls in {seconds:.0f} simulated s: {dict(calls)}")
    touched = 200 * 3 // 20 * 2
    assert calls["ListClusters"] < 200
    assert calls["GET rayjobs list"] + calls["GET rayclusters list"] <= 2 * (touched + 1)


def fill(life: Life, cluster: Any, name: str, labels: dict[str, str]) -> None:
    """A pool that is there already: making 2,000 of them one after another takes days."""
    types = part("ops.gke").types
    nodes = importlib.import_module("rehearsal.ops.simulation.nodes")
    who = part("ops.owned").Owner("tpu-training", name, 1000, 2000)
    pool = types.NodePool(name=name, locations=["us-central1-a"], status="RUNNING")
    pool.config = types.NodeConfig(
        machine_type=life.desk().config.hardware.slice.machine_type,
        resource_labels={**who.labels(), **labels},
    )
    cluster.pools[name] = nodes.Pool(pool, 1, 4, "2x2", "tpu")


def test_a_ray_cluster_from_a_file_expires_by_its_age(life: Life) -> None:
    """`kubectl apply -f k8s/raycluster.yaml`: a file that knows no date."""
    desk = life.desk()
    files = part("ops.manifests").manifests(desk.config, part("ops.cost").read_prices())
    manifest = files["raycluster.yaml"]
    desk.kube(desk.place).create("rayclusters", manifest)
    lifetime = int(manifest["metadata"]["annotations"]["lifetime-seconds"])
    life.sweep()
    assert life.cloud.ours()
    life.cloud.clock.sleep(lifetime)
    life.sweep()
    assert life.cloud.ours() == []
