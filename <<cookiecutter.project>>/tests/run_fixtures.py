"""What the tests of a run share: a small model on random tokens, on the CPU, in this process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.data import SHARD_TOKENS
from << cookiecutter.package >>.settings import load
from << cookiecutter.package >>.worker import train_worker

RUN_TOML = Path(__file__).parents[1] / "run.toml"
VOCABULARY = 257

SMALL = {
    "model.layers": 2,
    "model.width": 32,
    "model.heads": 4,
    "model.kv_heads": 2,
    "model.hidden": 64,
    "train.batch_size": 8,
    "train.sequence_length": 16,
    "train.steps": 8,
    "train.warmup_steps": 2,
    "checkpoint.every": 3,
}
CPU = {"hardware.accelerator": "cpu", "hardware.placement": "any"}


def make_shard(root: Path, tokens: int = 20_000) -> Path:
    """Shards with a pattern that can be learned: each token follows from the one before."""
    root.mkdir(parents=True, exist_ok=True)
    content = (np.arange(tokens) * 7 % VOCABULARY).astype("<u2").tobytes()
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"tokens-00000-000-{sha256[:12]}.bin"
    (root / name).write_bytes(content)
    index = {
        "format": "token-shards",
        "version": 1,
        "tokenizer": "bytes",
        "vocab_size": VOCABULARY,
        "end_of_text": VOCABULARY - 1,
        "dtype": "uint16",
        "tokens": tokens,
        "documents": 1,
        "source": _source(root),
        "shards": [{"name": name, "tokens": tokens, "documents": 1, "sha256": sha256}],
    }
    (root / "index.json").write_text(json.dumps(index))
    return root


def _source(root: Path) -> dict[str, str | int]:
    """What `prepare` would have been asked for, so that it finds nothing left to do."""
    source: dict[str, str | int] = {"input": str(root.parent / "text"), "text_field": "text"}
    return {**source, "tokenizer": "bytes", "shard_tokens": SHARD_TOKENS}


def overrides(folder: Path, **changed: Any) -> list[str]:
    """--set values of a small run under `folder`; `train_steps=5` stands for train.steps=5."""
    places = {
        "run.storage": folder / "runs",
        "data.shards": folder / "data",
        "data.input": folder / "text",
    }
    own = {key.replace("_", ".", 1): value for key, value in changed.items()}
    return [f"{key}={_toml(value)}" for key, value in {**SMALL, **CPU, **places, **own}.items()]


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def small(folder: Path, **changed: Any) -> Config:
    return load(RUN_TOML, overrides(folder, **changed))


def run(folder: Path, **changed: Any) -> dict[str, Any]:
    """Trains in this process; the summary."""
    make_shard(folder / "data")
    return train_worker(small(folder, **changed))


def losses(folder: Path) -> dict[int, float]:
    """Step -> loss, from the run's metrics.jsonl."""
    path = next((folder / "runs").glob("*/metrics.jsonl"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(len(rows)))
    return {row["step"]: row["loss"] for row in rows}


def command(module: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m PACKAGE.MODULE ...` as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", f"<< cookiecutter.package >>.{module}", "--config", str(RUN_TOML), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def sets(values: list[str]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def assert_told(done: subprocess.CompletedProcess[str], code: int, *fragments: str) -> None:
    """One clear message, the documented exit code, no traceback."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    for fragment in (*fragments, "what to do"):
        assert fragment in done.stderr
