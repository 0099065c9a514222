"""Pre-flight with the real TPU compiler; skipped where it cannot be installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ops_fixtures import RUN_TOML
from preflight_fixtures import SMALL, preflight

from << cookiecutter.package >>.errors import Refused
from << cookiecutter.package >>.preflight import environment, study
from << cookiecutter.package >>.settings import load


@pytest.fixture(scope="module")
def compiler() -> None:
    try:
        environment.python(print)
    except Refused as refused:
        pytest.skip(str(refused))


@pytest.fixture(scope="module")
def judged(compiler: None) -> dict[str, Any]:
    done = preflight("--fresh", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["slices"][0]
    return found


def test_the_memory_of_the_state_is_that_of_its_share(judged: dict[str, Any]) -> None:
    shape = load(RUN_TOML, [f"{key}={value}" for key, value in SMALL.items()]).model.shape(257)
    parts = judged["hbm"]["parts"]
    assert parts["parameters"] == pytest.approx(4 * shape.parameters / 4, rel=0.01)
    assert parts["optimizer"] == pytest.approx(2 * parts["parameters"], rel=0.01)


def test_the_program_multiplies_what_the_model_needs(judged: dict[str, Any]) -> None:
    """And the scores of attention once more: the backward pass makes them again."""
    config = load(RUN_TOML, [f"{key}={value}" for key, value in SMALL.items()])
    shape, train = config.model.shape(257), config.train
    a_token = 2 * shape.layers * shape.width * train.sequence_length
    again = a_token * train.tokens_per_step / config.hardware.devices
    assert judged["flops"] == pytest.approx(judged["model_flops"] + again, rel=0.001)
    assert not judged["extrapolated"]


def test_parameters_are_gathered_and_gradients_scattered(judged: dict[str, Any]) -> None:
    assert {"all-gather", "reduce-scatter"} <= judged["collectives"].keys()


def test_a_program_with_work_for_sparse_cores_is_read(compiler: None) -> None:
    done = preflight("--json", hardware_generation="v6e")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["slices"][0]
    assert found["flops"] >= found["model_flops"] and found["bound"]["by"]


def test_gradients_between_parts_are_cut_as_their_parameters_are(judged: dict[str, Any]) -> None:
    done = preflight("--json", train_accumulation=4)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["slices"][0]
    parts = found["hbm"]["parts"]
    assert parts["gradients"] == pytest.approx(parts["parameters"], rel=0.01)
    scattered, once = (one["collectives"]["reduce-scatter"]["count"] for one in (found, judged))
    assert scattered <= 4 * once, "a part does the work of the parts before it"


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_slice_of_one_chip_holds_everything(compiler: None, accumulation: int) -> None:
    done = preflight("--json", hardware_topology="1x1", train_accumulation=accumulation)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["slices"][0]
    shape = load(RUN_TOML, [f"{key}={value}" for key, value in SMALL.items()]).model.shape(257)
    assert found["hbm"]["parts"]["parameters"] == pytest.approx(4 * shape.parameters, rel=0.01)
    assert not any(one["sent_bytes"] for one in found["collectives"].values())


def test_several_slices_exchange_each_chip_s_share_of_the_gradients(compiler: None) -> None:
    several = {"hardware_topology": "4x4", "hardware_slices": 2, "train_batch_size": 32}
    done = preflight("--json", **several)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    sent = found["slices"][0]["collectives"]["between slices"]["sent_bytes"]
    share = 2 * found["parameters"] / 16  # in bfloat16; what is small is padded
    assert share <= sent < 1.5 * share


def running() -> str:
    """The command lines of all processes."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # one that has just ended
            lines.append(file.read_text("utf-8", "replace"))
    return "\n".join(lines)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_asked_to_end_it_leaves_no_compiler_and_no_files(
    compiler: None, tmp_path: Path, sign: signal.Signals
) -> None:
    own = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "<< cookiecutter.package >>.ops.cli", "preflight", "--fresh"]
    # Under nohup these tests ignore it, and so would what they start.
    before = signal.signal(sign, signal.SIG_DFL)
    process = subprocess.Popen(
        [*command, *own], cwd=RUN_TOML.parent, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    signal.signal(sign, before)
    while not list(tmp_path.glob("preflight-*/programs.json")):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(sign)
    # As `timeout` does, and people: a second one while it clears away.
    time.sleep(0.02)
    process.terminate()
    assert process.wait(timeout=60) == 128 + sign
    assert not list(tmp_path.iterdir())
    assert str(tmp_path) not in running()


def test_a_second_call_compiles_nothing(judged: dict[str, Any]) -> None:
    done = preflight("--json", train_steps=7777)
    assert json.loads(done.stdout)["slices"][0] == judged
    assert "compiling" not in done.stderr


def test_a_slice_that_is_named_twice_is_shown_once(judged: dict[str, Any]) -> None:
    done = preflight("--json", "--compare", "v5e:2x2")
    assert json.loads(done.stdout)["slices"] == [judged]


@pytest.mark.parametrize("asked", [(), ("--before-renting",)])
def test_a_limit_of_run_toml_fails_it(
    judged: dict[str, Any], tmp_path: Path, asked: tuple[str, ...]
) -> None:
    summary = tmp_path / "summary.md"
    done = preflight(*asked, "--summary", str(summary), preflight_hbm_share=1e-6)
    assert done.returncode == 2
    assert "preflight.hbm_share" in done.stderr and "Traceback" not in done.stderr
    told = summary.read_text("utf-8")
    assert "v5e 2x2" in told and "above the limit" in told
    assert "preflight.hbm_share" in told, "why it failed"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("--compare", "v6e"), "GENERATION:TOPOLOGY"),
        (("--compare", "v9:2x2"), "no TPU generation"),
        (("--compare", "v5e:3x3"), "no topology"),
        (("--compare", "v4:2x2x1"), "two cores"),
        (("--compare", "v5e:16x16"), "--compare v5e:16x16"),
        (("--set", "train.batch_size=6"), "does not spread"),
        (("--picture", "slices.nothing"), ".png or .svg"),
    ],
)
def test_a_mistake_is_told_before_anything_is_compiled(
    words: tuple[str, ...], fragment: str
) -> None:
    done = preflight(*words)
    assert done.returncode == 2, done.stderr
    assert fragment in done.stderr
    assert "Traceback" not in done.stderr and "compiling" not in done.stderr
    assert "hardware.accelerator=xla" not in done.stderr, "nobody typed it"


def test_a_file_that_cannot_be_written_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    done = preflight("--picture", str(tmp_path / "no" / "slices.png"))
    assert done.returncode == 3 and "no such folder" in done.stderr
    done = preflight("--summary", str(tmp_path))
    assert done.returncode == 4 and "--summary" in done.stderr and "compiling" not in done.stderr


LINE = "return self.down(F.silu(self.gate(x)) * self.up(x))"


def with_model(folder: Path, line: str, changed: str) -> subprocess.CompletedProcess[str]:
    """Pre-flight of a project whose model.py has another line in place of this one."""
    package = folder / study.PACKAGE.name
    shutil.copytree(study.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    model = (package / "model.py").read_text("utf-8")
    assert model.count(line) == 1
    (package / "model.py").write_text(model.replace(line, changed), "utf-8")
    summary = str(folder / "summary.md")
    return preflight("--summary", summary, PYTHONPATH=str(folder), TMPDIR=str(folder))


@pytest.mark.parametrize(
    ("line", "changed", "words"),
    [
        (LINE, "return self.down(x * x[x > 0].sum())", "aten::nonzero"),
        (LINE, "return self.down(x * x.max().item())", "aten::_local_scalar_dense"),
        (LINE, "return x * torch.lgamma(torch.ones(4, device=x.device)).sum()", "aten::lgamma"),
        (LINE, "return self.down(x, 3)", "TypeError: Linear.forward() takes 2"),
        (LINE, "raise RuntimeError", "RuntimeError"),
        ("import torch\n", "import torch torch\n", "SyntaxError: invalid syntax"),
        ("import torch\n", "import is_not_there\n", "ModuleNotFoundError: No module named"),
    ],
)
def test_what_stops_the_step_is_named_with_its_place_in_the_model(
    compiler: None, tmp_path: Path, line: str, changed: str, words: str
) -> None:
    done = with_model(tmp_path, line, changed)
    assert words in (tmp_path / "summary.md").read_text("utf-8")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    place = re.search(r"model\.py:(\d+), (.+)", done.stderr)
    assert place and place[2].strip() == changed.strip()
    text = (tmp_path / study.PACKAGE.name / "model.py").read_text("utf-8").splitlines()
    assert text[int(place[1]) - 1].strip() == changed.strip()
