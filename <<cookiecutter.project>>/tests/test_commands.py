"""The commands as a user calls them: exit codes, messages, nothing left behind."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_fixtures import RUN_TOML, assert_told, command, losses, make_shard, overrides, sets


def train(folder: Path, *words: str, **changed: object) -> subprocess.CompletedProcess[str]:
    return command("train", "--in-process", *words, *sets(overrides(folder, **changed)))


@pytest.mark.parametrize("module", ["train", "prepare"])
def test_help_teaches(module: str) -> None:
    done = command(module, "--help")
    assert done.returncode == 0
    assert "Exit codes" in done.stdout
    assert "--set" in done.stdout


@pytest.mark.parametrize("module", ["train", "prepare"])
def test_a_dry_run_changes_nothing(tmp_path: Path, module: str) -> None:
    done = command(module, "--dry-run", "--json", *sets(overrides(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_setting_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    assert_told(train(tmp_path, train_steps=0), 2, "train.steps = 0", "run.toml")


def test_a_missing_file_of_settings_is_told(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "<< cookiecutter.package >>.train"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert_told(done, 3, "run.toml", "--config")


def test_missing_text_is_told(tmp_path: Path) -> None:
    done = command(
        "train", "--local", "--in-process", *sets(overrides(tmp_path, data_input="/no/such/*.txt"))
    )
    assert_told(done, 2, "/no/such/*.txt")
    assert not (tmp_path / "data").exists()


def test_no_ray_cluster_is_told(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    done = command("train", *sets(overrides(tmp_path)), RAY_ADDRESS="127.0.0.1:9")
    assert_told(done, 3, "no Ray cluster", "--local")


def test_ray_that_cannot_start_is_told(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    (tmp_path / "file").touch()
    done = command(
        "train", "--local", *sets(overrides(tmp_path)), RAY_TMPDIR=str(tmp_path / "file")
    )
    assert_told(done, 4, "Ray did not start", "--in-process")


def test_a_signal_saves_and_the_same_command_goes_on(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    words = sets(overrides(tmp_path, train_steps=100_000, checkpoint_every=100_000))
    running = subprocess.Popen(
        [
            *(sys.executable, "-m", "<< cookiecutter.package >>.train", "--in-process"),
            *("--config", str(RUN_TOML), *words),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("step "):
            break
    running.send_signal(signal.SIGTERM)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 143
    assert "ended early" in output
    done = len(losses(tmp_path))
    again = train(tmp_path, "--json", train_steps=done + 2, train_warmup_steps=1)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["went_on_from"] == done


def test_the_command_that_goes_on_is_the_same_with_more_steps(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    first = train(tmp_path, "--json", train_steps=2, train_warmup_steps=1)
    assert first.returncode == 0, first.stderr
    name, *words = shlex.split(json.loads(first.stdout)["go_on"])
    went_on = json.loads(command(name, *words, "--json").stdout)
    assert (went_on["went_on_from"], went_on["steps"]) == (2, 4)
