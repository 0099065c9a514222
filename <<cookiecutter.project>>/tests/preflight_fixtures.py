"""The command on a small step, whatever run.toml says of it."""

from __future__ import annotations

import os
import subprocess
import sys

from ops_fixtures import RUN_TOML

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
