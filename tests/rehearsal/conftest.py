from __future__ import annotations

from pathlib import Path

import pytest

from rehearsal.running import settings, train


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=1, help="random moments to kill each part at")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the standard library, made by the first run and shared by the rest."""
    folder = tmp_path_factory.mktemp("data")
    runs, log = folder / "runs", folder / "log"
    words = settings(str(runs), folder / "shards", train_steps=3, hardware_accelerator="cpu")
    train(log, "--local", "--in-process", *words)
    return folder / "shards"
