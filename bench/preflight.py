"""Pre-flight: its time and memory, its verdict at the edge, and the line through two depths.

    nox -s bench -- preflight
    nox -s bench -- preflight times edge    # of: times, edge, line

The edge: the largest batch that pre-flight says fits is compiled, and the next one is refused by
the compiler itself.
"""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import PACKAGE, PROJECT, begin, ratio, table
from presets import VOCABULARY, settings, studying

SMALL = ("model.preset=tiny", "model.layers=1", "train.sequence_length=4096", "train.batch_size=64")
DEEP = ("1b", "v6e:2x2", ("model.layers=24",))


def command(cache: Path) -> tuple[float, float]:
    """Seconds and gigabytes of the command for the project as it is made."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    began = time.perf_counter()
    words = (sys.executable, "-m", f"{PACKAGE}.ops.cli", "preflight", "--json")
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(words, cwd=PROJECT, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return seconds, max(before, peak) * 1024 / 1e9


def times() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cold, peak = command(Path(folder))
        kept = list(Path(folder).glob("ray-tpu-template/results/*"))
        for file in kept:
            file.unlink()
        installed, _ = command(Path(folder))
        warm = [command(Path(folder))[0] for _ in range(3)]
    table(
        "time of `ops preflight` for the default project",
        [
            ("nothing installed", [cold], "s"),
            ("the compiler installed", [installed], "s"),
            ("the result kept", warm, "s"),
            ("largest process", [peak], "GB"),
        ],
    )


def _settings(*words: str) -> Any:
    load = importlib.import_module(f"{PACKAGE}.settings").load
    return load(PROJECT / "run.toml", [*words])


def _study() -> Any:
    return importlib.import_module(f"{PACKAGE}.preflight.study").Study(lambda text: None)


def edge() -> None:
    """Doubled until it is refused, then halved in between. The figures are of no help: near the
    limit the compiler computes things again to save memory, and takes less for a larger batch."""
    config, study = _settings(*SMALL), _study()
    unit = config.hardware.devices
    seen: dict[int, Any] = {}
    batch: int | None = 64
    while batch:
        train = replace(config.train, batch_size=batch)
        seen[batch] = study.figures(replace(config, train=train))
        batch = _next(seen, unit)
    low = max(batch for batch in seen if seen[batch].fits)
    high = low + unit
    name = f"{config.hardware.generation} {config.hardware.topology}"
    print(f"\nthe edge, 1 layer, sequences of 4096 on {name}, after {len(seen)} compilations")
    print(f"  batch {low}: said to fit, and compiled, {seen[low].share:.2%} of HBM")
    print(f"  batch {high}: {seen[high].share:.2%}", end=", ")
    print("refused by the compiler" if seen[high].needed else "compiled: ours is the stricter")


def _next(seen: dict[int, Any], unit: int) -> int | None:
    """The batch to compile next; None at the edge."""
    low = max(batch for batch in seen if seen[batch].fits)
    above = [batch for batch in seen if batch > low]
    if not above:
        return 2 * low
    high = min(above)
    return None if high - low == unit else (low + high) // (2 * unit) * unit


def line() -> None:
    """A model that is too deep to be compiled as a whole is, this once. The aim for HBM is that of
    `study.NEAR`: where a line so far off would decide wrongly, none is drawn."""
    preset, where, layers = DEEP
    config, study = settings(preset, where, layers), studying(VOCABULARY[preset])
    guessed = study.Study(lambda text: None).estimate(config)
    whole = study.Study(lambda text: None, whole=True).figures(config)
    print(f"\n{preset} with {config.model.layers} layers on {where}, all of them")
    print(f"  the line through {guessed.depths} over {whole.depths} compiled")
    ratio("HBM", guessed.used / whole.used, "0.75 to 1.3")
    ratio("FLOPs", guessed.flops / whole.flops, "0.99 to 1.01")
    ratio("bytes through HBM", guessed.hbm_bytes / whole.hbm_bytes, "0.9 to 1.1")
    ratio("bytes sent", guessed.sent_bytes / whole.sent_bytes, "0.9 to 1.1")


def main() -> None:
    parts = {"times": times, "edge": edge, "line": line}
    if strange := [word for word in sys.argv[1:] if word not in parts]:
        sys.exit(f'"{strange[0]}" is none of {", ".join(parts)}')
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    begin(main)
