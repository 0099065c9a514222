"""What a pre-flight keeps on this machine: the compiler and its results; what is in their way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ops_fixtures import settings

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import Refused
from << cookiecutter.package >>.preflight import environment, study
from << cookiecutter.package >>.preflight.figures import Figures
from << cookiecutter.package >>.preflight.results import remembered


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return environment.cache()


def figures() -> Figures:
    return Figures(16.0, {"parameters": 4.0}, flops=1.0, depths=(4,))


def not_made() -> Figures:
    raise AssertionError("it was kept")


def test_figures_are_kept(cache: Path) -> None:
    assert remembered("a", figures, print) == figures()
    assert remembered("a", not_made, print) == figures()
    assert [file.name for file in (cache / "results").iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"limit": 0, "depths": [2]}', '{"limit": "x", "depths": [2]}'),
        *('{"limit": 1}', '{"limit": 1, "depths": [4]}'),
    ],
)
def test_what_is_no_result_is_made_again(cache: Path, content: str) -> None:
    (cache / "results").mkdir(parents=True)
    (cache / "results" / "a.json").write_text(content, "utf-8")
    assert remembered("a", figures, print) == figures()


def test_a_result_that_cannot_be_kept_is_told_and_given(cache: Path) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where a folder should be", "utf-8")
    said: list[str] = []
    assert remembered("a", figures, said.append) == figures()
    assert "cannot be kept" in said[0]


def test_a_compiler_that_cannot_be_installed_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    failing = [sys.executable, "-c", "import sys; sys.exit('no index could be reached')"]
    monkeypatch.setattr(environment, "_commands", lambda folder: [failing])
    with pytest.raises(Refused, match="no index could be reached") as caught:
        environment.python(lambda text: None)
    assert caught.value.exit_code == 4
    assert [path.suffix for path in environment.cache().iterdir()] == [".log"]


def test_an_environment_whose_python_has_gone_is_made_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = environment.place() / "bin"
    inside.mkdir(parents=True)
    (inside / "python").symlink_to(cache / "gone")
    make = "import pathlib, sys; p = pathlib.Path(sys.argv[1]) / 'bin'; p.mkdir(); "
    make += "(p / 'python').touch()"
    monkeypatch.setattr(
        environment, "_commands", lambda folder: [[sys.executable, "-c", make, str(folder)]]
    )
    assert environment.python(print).exists()
    assert list(cache.iterdir()) == [environment.place()]
    assert environment.place().stat().st_mode & 0o055 == 0o055, "others may share it"


def test_an_environment_that_cannot_be_looked_into_is_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", closed)
    with pytest.raises(Refused, match="Permission denied"):
        environment.python(print)


def test_an_environment_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'bin').mkdir()"
    touch = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'bin' / 'python').touch()"
    monkeypatch.setattr(
        environment,
        "_commands",
        lambda folder: [[sys.executable, "-c", code, str(folder)] for code in (make, touch)],
    )
    said: list[str] = []
    assert environment.python(said.append).exists()
    assert environment.python(said.append).exists()
    assert len(said) == 1 and "jax" in said[0]


def test_a_full_temporary_folder_is_told(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def full(self: study.Study, config: Config, folder: Path) -> Figures:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(study.Study, "_compiled", full)
    with pytest.raises(Refused, match="No space left") as caught:
        study.Study(print).figures(settings())
    assert "TMPDIR" in caught.value.remedy


def test_a_compiler_that_is_no_longer_whole_is_told(cache: Path) -> None:
    inside = environment.place() / "bin"
    inside.mkdir(parents=True)
    (inside / "python").write_text("#!/bin/sh\nexit 1\n")
    (inside / "python").chmod(0o755)
    with pytest.raises(Refused, match="no longer whole"):
        environment.check()
