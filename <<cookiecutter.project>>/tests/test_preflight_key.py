"""What makes a kept result another step's: settings, code, packages, the compiler's flags."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ops_fixtures import settings
from preflight_fixtures import load_with

from << cookiecutter.package >>.preflight import study


def test_what_is_kept_goes_by_what_the_figures_depend_on() -> None:
    one = settings()
    assert study.key(one) == study.key(load_with("train.steps=700", "train.learning_rate=1.0"))
    for setting in (
        "train.clip=0.5",
        "train.batch_size=55296",
        "model.width=256",
        "hardware.topology=4x4",
        "hardware.fsdp=2",
    ):
        assert study.key(one) != study.key(load_with(setting)), setting


def test_a_file_that_the_model_takes_in_makes_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(study.PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("ops"))
    monkeypatch.setattr(study, "PACKAGE", tmp_path / "package")
    before = study.key(load_with())
    (tmp_path / "package" / "ops").mkdir()
    (tmp_path / "package" / "ops" / "verb.py").touch()
    assert study.key(load_with()) == before
    (tmp_path / "package" / "layers.py").touch()
    assert study.key(load_with()) != before


def test_a_package_beside_ours_makes_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "beside"):
        (tmp_path / "src" / name).mkdir(parents=True)
    monkeypatch.setattr(study, "PACKAGE", tmp_path / "src" / "ours")
    before = study.key(load_with())
    (tmp_path / "src" / "beside" / "layers.py").touch()
    assert study.key(load_with()) != before


@pytest.mark.parametrize("name", ["XLA_FLAGS", "LIBTPU_INIT_ARGS"])
def test_flags_of_the_compiler_make_another_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = study.key(load_with())
    monkeypatch.setenv(name, "--xla_of_no_matter=1")
    assert study.key(load_with()) != before
