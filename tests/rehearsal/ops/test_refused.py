"""Each call of a run's life is refused once in each of the ways there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.simulation import KINDS, Fault
from rehearsal.ops.test_crash import JOB_SECONDS, assert_no_double, assert_nothing_left, live

PASSING = tuple(kind for kind in KINDS if kind not in ("denied", "empty"))


def refused(life: Life, call: int, kind: str) -> list[tuple[str, Any]]:
    """The verbs that failed, each with its failure, in a life in which this call was refused once;
    `ops teardown` comes last, as in a workflow."""
    life.cloud.jobs.behave("", seconds=JOB_SECONDS)
    life.cloud.faults.add(Fault(kind, at=call))  # type: ignore[arg-type]
    failures: list[tuple[str, Any]] = []
    for verb in ("provision", "submit", "watch"):
        try:
            life.verbs()[verb]()
        except part("errors").Failure as failure:
            failures.append((verb, failure))
            break
    if failures and failures[0][0] == "provision":
        assert_nothing_left(life)
    life.teardown()
    return failures


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> int:
    with simulated(tmp_path_factory.mktemp("whole")) as life:
        life.cloud.jobs.behave("", seconds=JOB_SECONDS)
        live(life)
        return len(life.cloud.calls)


@pytest.mark.parametrize("kind", PASSING)
def test_what_passes_is_tried_again_and_ends_well(tmp_path: Path, calls: int, kind: str) -> None:
    for call in range(1, calls + 1):
        with simulated(tmp_path / str(call)) as life:
            failures = refused(life, call, kind)
            assert life.cloud.faults.struck, call
            assert failures == [], (call, life.cloud.faults.struck)
            assert_no_double(life)
            assert_nothing_left(life)
    print(f"{calls} calls, each once {kind}")


def test_an_empty_answer_ends_well_or_is_told_and_leaves_nothing(
    tmp_path: Path, calls: int
) -> None:
    """An empty list of pools is a right answer too: only a second look can tell."""
    for call in range(1, calls + 1):
        with simulated(tmp_path / str(call)) as life:
            for _verb, failure in refused(life, call, "empty"):
                (struck,) = life.cloud.faults.struck
                assert struck.method == "ListNodePools", "the others show that they are not whole"
                assert failure.exit_code in (2, 3, 5)
                assert failure.remedy
            assert_no_double(life)
            assert_nothing_left(life)


def test_missing_rights_are_told_and_leave_nothing(tmp_path: Path, calls: int) -> None:
    told = 0
    for call in range(1, calls + 1):
        with simulated(tmp_path / str(call)) as life:
            failures = refused(life, call, "denied")
            for verb, failure in failures:
                told += 1
                assert isinstance(failure, part("errors").Refused), (verb, failure)
                assert failure.exit_code == 4
                assert "Permission denied" in failure.what
                assert "right" in failure.remedy
            assert_nothing_left(life)
    assert told > calls / 2, "teardown alone looks again, and needs no second call"


@pytest.mark.parametrize("verb", ["provision", "submit", "watch", "teardown"])
def test_a_cloud_that_stays_away_ends_with_a_deadline(tmp_path: Path, verb: str) -> None:
    with simulated(tmp_path) as life:
        for earlier in ("provision", "submit", "watch"):
            if earlier == verb:
                break
            life.verbs()[earlier]()
        begin = len(life.cloud.calls) + 1
        life.cloud.faults.add(Fault("unavailable", at=begin, times=10_000))
        with pytest.raises(part("errors").Deadline) as caught:
            life.verbs()[verb]()
        assert caught.value.exit_code == 7
        assert "did not answer" in caught.value.remedy or "ops teardown" in caught.value.remedy


def test_an_operation_that_never_ends_is_cancelled_and_the_next_zone_tried(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["spot"]', "cloud.attempt_minutes=5") as life:
        machine = life.desk().config.hardware.slice.machine_type
        life.cloud.capacity.set("us-central1-a", "spot", machine, "never")
        assert life.provision().capacity == "spot in us-central1-b"
        assert "nothing came within 5 minutes" in "\n".join(life.said)
        live(life, "submit")
        assert_nothing_left(life)


def test_a_login_that_ends_in_mid_run_is_renewed(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        life.cloud.expire_token()
        life.submit()
        for nth in (4, 8, 12):
            life.cloud.faults.add(Fault("unauthenticated", method="GET rayjobs", nth=nth))
        assert life.watch().succeeded
        assert len(life.cloud.faults.struck) == 3
        life.teardown()
        assert_nothing_left(life)


def test_a_deleted_service_account_is_told(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        account = part("ops.pools").node_account(life.desk().config)
        life.cloud.gke.deleted_accounts.add(account)
        with pytest.raises(part("errors").NoCapacity, match="SERVICE_ACCOUNT_DELETED"):
            life.provision()
        assert_nothing_left(life)
