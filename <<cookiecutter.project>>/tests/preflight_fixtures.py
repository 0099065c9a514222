"""The command on a small step, whatever run.toml says of it; settings and figures of a step."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from ops_fixtures import RUN_TOML

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.preflight.figures import Figures
from << cookiecutter.package >>.settings import load

GIB = 2**30

SMALL = {
    "hardware.generation": "v5e",
    "hardware.topology": "2x2",
    "hardware.slices": 1,
    "model.preset": "tiny",
    "model.layers": 1,
    "data.tokenizer": "bytes",
    "train.batch_size": 16,
    "train.sequence_length": 128,
    "train.accumulation": 1,
    "preflight.hbm_share": 0.95,
    "preflight.step_seconds": 0,
    "preflight.before_renting": "true",
}


def preflight(*words: str, **changed: object) -> subprocess.CompletedProcess[str]:
    """With settings, and in capital letters variables, that are changed."""
    variables = {key: str(value) for key, value in changed.items() if key.isupper()}
    settings = {key: value for key, value in changed.items() if key not in variables}
    own = SMALL | {key.replace("_", ".", 1): value for key, value in settings.items()}
    sets = [word for key, value in own.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "<< cookiecutter.package >>.ops.cli", "preflight"]
    return subprocess.run(
        [*command, *sets, *words],
        cwd=RUN_TOML.parent,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def load_with(*changes: str) -> Config:
    base = ("train.batch_size=110592", "hardware.generation=v5e", "hardware.topology=2x2")
    return load(RUN_TOML, [*base, "hardware.slices=1", *changes])


def figures(**changed: object) -> Figures:
    plain = Figures(
        16.0 * GIB,
        {"parameters": 4.0 * GIB, "temporary": 4.0 * GIB},
        flops=197e12,
        hbm_bytes=81.9e9,
        collectives={"all-gather": (3.0, 2e9)},
        depths=(4,),
    )
    return replace(plain, **changed)  # type: ignore[arg-type]
