from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rehearsal.plane import CannotRehearse, Plane, find
from rehearsal.plane.objects import SILENT

Programs = Callable[[str], Path]


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Programs:
    """The folder of a part's programs; says how far a first build is, skips where there is none."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\nplane: {line}", flush=True)

    def found(part: str) -> Path:
        try:
            return find(part, say)
        except CannotRehearse as why:
            pytest.skip(str(why))

    return found


@pytest.fixture(scope="module", params=["operator-newest", "operator-oldest"])
def plane(
    request: pytest.FixtureRequest, programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Plane]:
    """One with each operator that a project may meet."""
    kubernetes, operator = programs("kubernetes"), programs(request.param)
    folder = tmp_path_factory.mktemp("plane")
    failed = request.session.testsfailed
    with Plane(folder, kubernetes, operator, grace_seconds=SILENT) as started:
        yield started
    if request.session.testsfailed > failed:
        print(f"the logs of the plane lie in {started.logs_folder}")
