"""Whether a step ever waits for its data.

    nox -s bench -- data

The share of the steps' time that the loop waited, and how much faster batches are made than used.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

from common import PACKAGE, begin, ratio, role, table, train

STEPS = 40


def loader(folder: Path) -> float:
    """Tokens a second of the batches alone."""
    batches = importlib.import_module(f"{PACKAGE}.data").TokenBatches(
        str(folder / "data"), sequence_length=256, batch_size=16, seed=0
    )
    began, count = time.perf_counter(), 2000
    for step in range(count):
        batches.batch(step)
    return count * 16 * 256 / (time.perf_counter() - began)


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps({"tokens_per_second": loader(Path(sys.argv[1]))}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = train(folder, "--in-process", train_steps=STEPS, checkpoint_every=10 * STEPS)
        alone = role(__file__, temporary)["tokens_per_second"]
    used = run["tokens_per_second"]
    table(
        "tokens/s", [("used by the steps", [used], ""), ("made by the loader alone", [alone], "")]
    )
    seconds = (STEPS - 1) * run["tokens_per_step"] / used
    ratio("waited for data / steps", run["data_wait_seconds"] / seconds, "0: never waits")
    ratio("made / used", alone / used, "more is better")


if __name__ == "__main__":
    begin(main)
