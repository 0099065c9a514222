"""Compiled programs: kept where the runs are, there again at the next start, never in the way."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from << cookiecutter.package >>.accelerator import _compiled
from << cookiecutter.package >>.accelerator._compiled import Compiled, folder_name

STEP = """
import json, os, sys
os.environ["PJRT_DEVICE"] = "CPU"
import torch, torch_xla, torch_xla.runtime as xr
import torch_xla.debug.metrics as metrics
from << cookiecutter.package >>.accelerator._compiled import Compiled
compiled = Compiled(sys.argv[1])
compiled.fetch()
xr.initialize_cache(str(compiled.here))
x = torch.ones(64, 64).to("xla")
(x @ x).sum().item()
compiled.keep().join()
print(json.dumps({name: metrics.counter_value(name) for name in metrics.counter_names()}))
"""


def start(url: str) -> dict[str, int]:
    """What the runtime counted in a process that compiles one program."""
    done = subprocess.run(
        [sys.executable, "-c", STEP, url], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    counted: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counted


def kept(url: Path) -> list[str]:
    return sorted(path.name for path in (url / folder_name()).glob("*"))


def test_the_second_start_finds_what_the_first_compiled(tmp_path: Path) -> None:
    """The CPU's compiler writes programs and cannot read them: being found is what shows here."""
    first = start(str(tmp_path))
    assert first["PersistentCacheMiss"] >= 1
    names = kept(tmp_path)
    assert len(names) == first["PersistentCacheMiss"]
    second = start(str(tmp_path))
    assert "PersistentCacheMiss" not in second
    assert kept(tmp_path) == names


def test_what_is_new_is_sent_once(tmp_path: Path) -> None:
    one = Compiled(str(tmp_path))
    (one.here / "a").write_bytes(b"first")
    one.keep().join()
    (one.here / "a").write_bytes(b"second")
    (one.here / "b").write_bytes(b"third")
    one.keep().join()
    other = Compiled(str(tmp_path))
    other.fetch()
    found = {file.name: file.read_bytes() for file in other.here.iterdir()}
    assert found == {"a": b"first", "b": b"third"}


def test_another_compiler_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Compiled(str(tmp_path))
    (one.here / "a").write_bytes(b"first")
    one.keep().join()
    monkeypatch.setattr(_compiled, "version", lambda part: "99")
    other = Compiled(str(tmp_path))
    other.fetch()
    assert list(other.here.iterdir()) == []


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiled, "KEPT", 2)
    one = Compiled(str(tmp_path))
    for name in ("c", "b", "a"):
        (one.here / name).write_bytes(b"program")
        one.keep().join()
    assert kept(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("work", [Compiled.fetch, lambda one: one.keep().join()])
def test_storage_that_refuses_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, work: object
) -> None:
    (tmp_path / "file").write_text("in the way")
    one = Compiled(str(tmp_path / "file"))
    (one.here / "a").write_bytes(b"program")
    with caplog.at_level(logging.WARNING):
        work(one)  # type: ignore[operator]
    told = [record.getMessage() for record in caplog.records]
    assert all("compiled programs cannot be" in text for text in told)
    assert len(told) == (work is not Compiled.fetch)
