"""What a person is told while a run comes and goes, and with which exit code it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.simulation import Fault
from rehearsal.ops.simulation.kubernetes import Kubernetes
from rehearsal.ops.simulation.refusal import Refusal
from rehearsal.ops.test_crash import assert_nothing_left, refuse_all


@pytest.fixture
def life(tmp_path: Path) -> Any:
    with simulated(tmp_path) as life:
        yield life


def begin(life: Life, **behaviour: Any) -> None:
    life.cloud.jobs.behave("", **behaviour)
    life.provision()
    life.submit()


def failed(life: Life, timeout: float = 4 * 3600) -> Any:
    with pytest.raises(part("errors").Failure) as caught:
        life.watch(timeout)
    return caught.value


def test_the_log_is_told_once(life: Life, capfd: pytest.CaptureFixture[str]) -> None:
    begin(life, seconds=300, log="\n".join(f"step {number}" for number in range(200)))
    assert life.watch().succeeded
    told = capfd.readouterr().err.splitlines()
    assert told == [f"step {number}" for number in range(200)]


def test_a_failed_job_is_exit_code_6_and_leaves_evidence(life: Life) -> None:
    begin(life, seconds=60, ends="FAILED", message="exit code 1", log="Traceback\nValueError: no")
    failure = failed(life)
    assert (failure.exit_code, "exit code 1" in failure.what) == (6, True)
    torn = life.teardown()
    assert_nothing_left(life)
    (folder,) = torn.evidence
    names = {path.name for path in Path(folder).iterdir()}
    assert {"rayjob.json", "pods.json", "events.json"} < names
    assert "ValueError: no" in (Path(folder) / "tpu-training-submitter.log").read_text()


def test_the_deadline_ends_the_job_with_exit_code_7(life: Life) -> None:
    begin(life, seconds=10**6)
    failure = failed(life, timeout=10**6)
    assert failure.exit_code == 7
    assert "cloud.deadline_hours" in failure.remedy
    life.teardown()
    assert_nothing_left(life)


def test_a_timeout_leaves_the_job_running_and_says_so(life: Life) -> None:
    begin(life, seconds=3600)
    failure = failed(life, timeout=600)
    assert failure.exit_code == 7
    assert "RUNNING" in failure.what and "goes on by itself" in failure.remedy
    assert life.watch().succeeded


def test_an_image_that_cannot_be_pulled_is_told_while_waiting(life: Life) -> None:
    begin(life, image=False)
    began = life.cloud.clock.now()
    failure = failed(life)
    assert failure.exit_code == 6
    assert "the image cannot be pulled" in failure.what and "ops teardown" in failure.remedy
    assert "waiting: the image cannot be pulled" in "\n".join(life.said)
    # A slice is not paid for until the time to begin is over.
    assert life.cloud.clock.now() - began < 600
    life.teardown()
    assert_nothing_left(life)


def test_flex_start_without_capacity_is_told_while_waiting_and_is_exit_code_5(
    tmp_path: Path,
) -> None:
    with simulated(tmp_path, 'cloud.capacity=["flex-start"]') as life:
        refuse_all(life)
        begin(life)
        failure = failed(life)
        assert failure.exit_code == 5
        assert "no TPU nodes come" in failure.what and "us-central1-a" in failure.what
        life.teardown()
        assert_nothing_left(life)


def test_an_image_that_cannot_be_pulled_is_no_lack_of_capacity(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["flex-start"]') as life:
        begin(life, image=False)
        failure = failed(life)
        assert "wait for their TPU nodes" in "\n".join(life.said), "at first they do"
        assert failure.exit_code == 6
        assert "the image cannot be pulled" in failure.what


def test_flex_start_says_nothing_while_it_waits(tmp_path: Path) -> None:
    """GKE makes no event of a queue; that pods wait is all there is to see."""
    with simulated(tmp_path, 'cloud.capacity=["flex-start"]') as life:
        refuse_all(life, "queue")
        begin(life)
        failure = failed(life)
        assert failure.exit_code == 5
        assert "wait for their TPU nodes" in failure.what


def test_flex_start_waits_for_its_capacity(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["flex-start"]') as life:
        refuse_all(life)
        machine = life.desk().config.hardware.slice.machine_type
        later = life.cloud.clock.now() + 1200
        life.cloud.capacity.after(later, "us-central1-a", "flex-start", machine, "available")
        begin(life, seconds=60)
        assert life.watch().succeeded


def test_a_quota_is_no_stockout(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["flex-start"]') as life:
        refuse_all(life, "quota")
        begin(life)
        failure = failed(life)
        assert "ask for more quota" in failure.remedy


def test_a_lost_connection_ends_nothing(life: Life) -> None:
    begin(life, seconds=1800)
    life.cloud.faults.add(Fault("timeout-before", method="GET rayjobs", nth=20, times=60))
    assert life.watch().succeeded
    assert "the cluster does not answer; the job goes on by itself" in "\n".join(life.said)


def test_a_cluster_out_of_reach_for_an_hour_ends_watching_not_the_job(life: Life) -> None:
    begin(life, seconds=5000)
    life.cloud.faults.add(Fault("timeout-before", method="GET rayjobs", nth=20, times=10_000))
    assert failed(life).exit_code == 7
    assert "rayjobs tpu-training/tpu-training" in life.cloud.ours()


def test_a_pod_that_its_node_does_not_know_yet_ends_nothing(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet then answers as if there were no such pod."""
    log, unknown = Kubernetes.log, iter(range(3))

    def at_first_none(self: Kubernetes, pod: str, seconds: int | None) -> str:
        if next(unknown, None) is not None:
            raise Refusal(404, f'pod "{pod}" not found')
        return log(self, pod, seconds)

    monkeypatch.setattr(Kubernetes, "log", at_first_none)
    begin(life, seconds=300)
    assert life.watch().succeeded
    assert next(unknown, None) is None


def test_a_job_that_is_not_there_is_exit_code_3(life: Life) -> None:
    failure = failed(life)
    assert failure.exit_code == 3
    assert "ops submit" in failure.remedy


def test_a_lost_spot_slice_comes_back_and_the_run_goes_on(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["spot"]') as life:
        begin(life, seconds=3000)
        life.cloud.clock.sleep(300)
        cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
        life.cloud.gke.preempt(cluster, "tpu-training-t0-s0")
        assert life.watch().succeeded
        life.teardown()
        assert_nothing_left(life)


def test_an_idle_slice_goes_by_itself(life: Life) -> None:
    life.provision()
    life.cloud.clock.sleep(900)
    assert life.cloud.burning() == {}


def test_submitting_needs_a_slice_and_an_image_by_digest(life: Life) -> None:
    with pytest.raises(part("errors").InputError, match="run `ops provision` first"):
        life.submit()
    desk = life.desk()
    for image in ("train", "train:latest", "r/train@sha256:12", ""):
        with pytest.raises(part("errors").InputError, match="digest"):
            part("ops.submit").submit(desk, image, life.plan(desk))


def test_autopilot_makes_the_nodes_for_the_job(tmp_path: Path) -> None:
    words = ("cloud.cluster_mode=autopilot", 'cloud.capacity=["spot"]')
    with simulated(tmp_path, *words, autopilot=True) as life:
        assert life.provision().pools == ()
        assert life.submit().new
        assert not life.submit().new
        assert life.watch().succeeded
        assert life.cloud.most_burning() == 4
        life.teardown()
        assert_nothing_left(life)


def test_a_cluster_of_the_other_mode_is_told(tmp_path: Path) -> None:
    wrong = part("errors").InputError
    with (
        simulated(tmp_path, autopilot=True) as life,
        pytest.raises(wrong, match="the cluster is autopilot"),
    ):
        life.provision()


def test_lists_come_in_pages(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part("ops.kube"), "PAGE", 2)
    store = life.cloud.gke.cluster("us-central1", "tpu-training").kubernetes.store
    for number in range(5):
        store.put("rayclusters", f"r{number}", {}, 0.0)
    desk = life.desk()
    assert len(desk.kube(desk.place).objects("rayclusters", "")) == 5


def test_a_job_on_old_pools_ends_before_they_expire(life: Life) -> None:
    life.cloud.jobs.behave("", seconds=10**6)
    expires = life.provision().expires_at
    life.cloud.clock.sleep(expires - life.cloud.clock.now() - 3600)
    life.submit()
    assert "expire soon: the job ends after 0.5 h" in "\n".join(life.said)
    assert failed(life, timeout=10**6).exit_code == 7
    assert life.cloud.clock.now() < expires


def test_no_job_begins_on_pools_that_are_about_to_expire(life: Life) -> None:
    expires = life.provision().expires_at
    life.cloud.clock.sleep(expires - life.cloud.clock.now() - 1900)
    with pytest.raises(part("errors").InputError, match="about to expire"):
        life.submit()
    life.cloud.clock.sleep(3600)
    with pytest.raises(part("errors").Deadline, match="have expired"):
        life.provision()


def test_a_changed_list_of_capacity_is_told(life: Life) -> None:
    machine = life.desk().config.hardware.slice.machine_type
    for zone in ("us-central1-a", "us-central1-b"):
        life.cloud.capacity.set(zone, "on-demand", machine, "stockout")
    assert life.provision().capacity.startswith("spot")
    shorter = Life(life.cloud, life.folder, *life.overrides, 'cloud.capacity=["spot"]')
    with pytest.raises(part("errors").InputError, match="made with other settings"):
        shorter.provision()
    life.overrides[:] = [*life.overrides, "hardware.topology=4x4", "train.batch_size=64"]
    with pytest.raises(part("errors").InputError, match="made with other settings"):
        life.provision()
    life.teardown()
    assert_nothing_left(life)


def test_fewer_slices_than_before_are_told(tmp_path: Path) -> None:
    words = ("hardware.topology=4x4", "train.batch_size=128")
    with simulated(tmp_path, *words, "hardware.slices=2") as life:
        life.provision()
        fewer = Life(life.cloud, life.folder, *life.overrides, "hardware.slices=1")
        with pytest.raises(part("errors").InputError, match="made with other settings"):
            fewer.provision()


def test_the_log_is_that_of_the_newest_submission(life: Life) -> None:
    begin(life, seconds=300, log="the second try")
    life.cloud.clock.sleep(300)
    store = life.cloud.gke.cluster("us-central1", "tpu-training").kubernetes.store
    labels = {"job-name": "tpu-training"}
    first = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "submitter"}]}}
    store.put("pods", "tpu-training-first", {**first, "status": {"phase": "Pending"}}, 0.0)
    assert part("ops.watch").log_of(life.desk()) == "the second try\n"
