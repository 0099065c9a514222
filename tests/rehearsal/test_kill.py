"""SIGKILL at any moment: the run goes on from its newest complete checkpoint, same losses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.running import Training, incomplete, losses, rows, settings, train

STEPS = 24
WORKER, RAYLET, DRIVER = "RayTrainWorker", "raylet/raylet", "driver"
ACCELERATORS = {
    "xla": {"hardware_accelerator": "xla", "hardware_virtual_devices": 4},
    "cpu": {"hardware_accelerator": "cpu", "hardware_virtual_devices": 0},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "moment" in metafunc.fixturenames:
        metafunc.parametrize("moment", range(metafunc.config.getoption("--kills")))


@pytest.fixture(scope="module", params=ACCELERATORS)
def accelerator(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def uninterrupted(
    accelerator: str, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[float]:
    folder = tmp_path_factory.mktemp(f"whole-{accelerator}")
    train(folder / "log", "--local", *words(folder, data, accelerator))
    whole = losses(folder)
    assert len(whole) == STEPS
    return whole


def words(folder: Path, data: Path, accelerator: str) -> list[str]:
    return settings(str(folder), data, **ACCELERATORS[accelerator])


@pytest.mark.parametrize("part", [WORKER, RAYLET, DRIVER])
def test_a_kill_between_two_steps_changes_no_loss(
    tmp_path: Path, data: Path, accelerator: str, uninterrupted: list[float], part: str, moment: int
) -> None:
    step = random.Random(f"{accelerator} {part} {moment}").randrange(2, STEPS - 2)
    killed_at(tmp_path, data, accelerator, part, lambda: len(rows(tmp_path)) >= step)
    assert losses(tmp_path) == uninterrupted


def test_a_kill_during_an_upload_changes_no_loss(
    tmp_path: Path, data: Path, accelerator: str, uninterrupted: list[float], moment: int
) -> None:
    wanted = random.Random(f"{accelerator} upload {moment}").randrange(1, STEPS // 4)

    def uploading() -> bool:
        return len(rows(tmp_path)) >= 4 * wanted - 2 and bool(incomplete(tmp_path))

    killed_at(tmp_path, data, accelerator, WORKER, uploading)
    assert losses(tmp_path) == uninterrupted
    assert not incomplete(tmp_path)


def killed_at(
    folder: Path, data: Path, accelerator: str, part: str, moment: Callable[[], bool]
) -> None:
    """A run that loses `part` at that moment, and then goes on: by itself when it was a worker, by
    the same command again when Ray or the driver died under it."""
    running = Training(folder / "log", "--local", *words(folder, data, accelerator))
    try:
        running.until(moment)
        running.kill(part)
        code = running.wait()
    finally:
        running.clear()
    assert part != WORKER or code == 0, (folder / "log").read_text()
    assert part != DRIVER or code != 0
    if code:
        train(folder / "log", "--local", *words(folder, data, accelerator))
