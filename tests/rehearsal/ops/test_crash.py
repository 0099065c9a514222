"""Every remote call of a run's life is the last one of its process, once before and once after it
took effect. Then the same verb is run again; or nobody comes back, and only the sweep does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import KINDS, Killed, Life, part, simulated

VERBS = ("provision", "submit", "watch", "teardown")
SLICES = {
    "one host": (),
    "two slices": ("hardware.topology=4x4", "hardware.slices=2", "train.batch_size=128"),
    "7x": ("hardware.generation=7x", "hardware.topology=2x2x2", "train.batch_size=64"),
}
# Each kind of capacity; and each shape of a slice, with a kind that provisions in its own way.
CASES = [*((kind, "one host") for kind in KINDS), ("spot", "two slices"), ("flex-start", "7x")]
JOB_SECONDS = 30


def live(life: Life, from_verb: str = "provision") -> None:
    for verb in VERBS[VERBS.index(from_verb) :]:
        life.verbs()[verb]()
        assert_no_double(life)


def assert_no_double(life: Life) -> None:
    """No more chips than the run's slices have, at no moment."""
    assert life.cloud.most_burning() <= chips(life), life.said


def chips(life: Life) -> int:
    hardware = life.desk().config.hardware
    return int(hardware.slice.chips * hardware.slices)


def assert_nothing_left(life: Life) -> None:
    assert life.cloud.ours() == []
    assert sum(life.cloud.burning().values()) == 0
    before = sum(life.cloud.bill().values())
    life.cloud.clock.sleep(7200)
    assert sum(life.cloud.bill().values()) == before, "the bill stopped"


def settings(kind: str, shape: str) -> list[str]:
    return [f'cloud.capacity=["{kind}"]', *SLICES[shape]]


def calls_of_a_life(folder: Path, *overrides: str) -> int:
    with simulated(folder, *overrides) as life:
        life.cloud.jobs.behave("", seconds=JOB_SECONDS)
        seen = len(life.cloud.calls)
        live(life)
        assert_nothing_left(life)
        assert life.calls >= len(life.cloud.calls) - seen, "a request that nobody counted"
        return life.calls


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_killed_at_every_call_and_run_again(
    tmp_path: Path, kind: str, shape: str, when: str
) -> None:
    total = calls_of_a_life(tmp_path / "whole", *settings(kind, shape))
    for call in range(1, total + 1):
        with simulated(tmp_path / str(call), *settings(kind, shape)) as life:
            verb = until_killed(life, call, when)
            live(life, verb)
            assert_nothing_left(life)
    print(f"{total} calls, each killed {when} it took effect")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_killed_at_every_call_and_only_the_sweep_comes(
    tmp_path: Path, kind: str, shape: str, when: str
) -> None:
    total = calls_of_a_life(tmp_path / "whole", *settings(kind, shape))
    for call in range(1, total + 1):
        with simulated(tmp_path / str(call), *settings(kind, shape)) as life:
            until_killed(life, call, when)
            life.cloud.clock.sleep(life.plan(life.desk()).lifetime_seconds)
            assert life.sweep().failure() is None
            assert_nothing_left(life)
    print(f"{total} calls, each killed {when} it took effect")


def until_killed(life: Life, call: int, when: str) -> str:
    """The verb that was cut off."""
    life.cloud.jobs.behave("", seconds=JOB_SECONDS)
    life.die_at(call, when)
    for verb, work in life.verbs().items():
        try:
            work()
        except Killed:
            life.live_on()
            return verb
    raise AssertionError(f"the life has fewer than {call} calls")


def test_a_failed_pool_is_removed_before_the_next_kind_is_tried(tmp_path: Path) -> None:
    with simulated(tmp_path, 'cloud.capacity=["on-demand", "spot"]') as life:
        machine = life.desk().config.hardware.slice.machine_type
        life.cloud.capacity.set("us-central1-a", "on-demand", machine, "stockout")
        life.cloud.capacity.set("us-central1-b", "on-demand", machine, "quota")
        found = life.provision()
        assert found.capacity == "spot in us-central1-a"
        assert len([name for name in life.cloud.ours() if name.startswith("pool")]) == 1
        told = "\n".join(life.said)
        assert "on-demand in us-central1-a: Google has none left there" in told
        assert "on-demand in us-central1-b: your project's quota there is too small" in told
        live(life)
        assert_nothing_left(life)


def test_no_capacity_anywhere_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        refuse_all(life)
        with pytest.raises(part("errors").NoCapacity, match="no TPU capacity anywhere") as caught:
            life.provision()
        assert caught.value.exit_code == 5
        for attempt in ("on-demand in us-central1-a", "spot in us-central1-b"):
            assert attempt in caught.value.what
        assert_nothing_left(life)


def refuse_all(life: Life, what: Any = "stockout") -> None:
    machine = life.desk().config.hardware.slice.machine_type
    for zone in life.desk().config.cloud.zones:
        for kind in ("on-demand", "spot", "flex-start"):
            life.cloud.capacity.set(zone, kind, machine, what)
