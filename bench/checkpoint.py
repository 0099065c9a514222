"""How long the loop stands still for a checkpoint, against saving and uploading it at once.

    nox -s bench -- checkpoint

100 million parameters with AdamW on four virtual devices, to a local folder. The loop is blocked by
the copy from the device, and by the checkpoint before where that is still being written.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from common import PACKAGE, ratio, role, table

ROUNDS = 3


def measure(folder: Path) -> dict[str, Any]:
    import importlib

    def module(name: str) -> Any:
        return importlib.import_module(f"{PACKAGE}.{name}")

    import torch

    overrides = [
        "model.preset=125m",
        "model.layers=15",
        "train.batch_size=4",
        "train.sequence_length=32",
    ]
    config = module("settings").load(Path("run.toml"), overrides, local=True)
    group = module("group").Group()
    accelerator = module("accelerator").open_accelerator(config, group)
    shape = config.model.shape(257)
    model = module("model").Transformer(shape, torch.bfloat16)
    trainer = module("loop").Trainer.build(
        config.train, accelerator, model, module("worker").fresh(model, 0)
    )
    store = module("checkpoint").CheckpointStore(str(folder), keep=2, group=group, identity={})
    store.restore()
    state = module("accelerator._base").training_state
    import numpy as np

    rows = np.zeros((4, 33), dtype=np.int32)

    def step(number: int) -> None:
        loss, _ = trainer.step(rows, number)
        loss.item()

    def save(number: int) -> tuple[float, float]:
        """Seconds for the copy from the device, and for it and handing it over."""
        began = time.perf_counter()
        copies = accelerator.snapshot(state(trainer.model, trainer.optimizer))
        copied = time.perf_counter() - began
        store.save(number, copies, {})
        return copied, time.perf_counter() - began

    step(0)
    found: dict[str, Any] = {"copy": [], "blocked": [], "at_once": []}
    for number in range(ROUNDS):
        began = time.perf_counter()
        save(2 * number + 1)
        store.wait()
        found["at_once"].append(time.perf_counter() - began)
        copied, blocked = save(2 * number + 2)
        found["copy"].append(copied)
        found["blocked"].append(blocked)
        step(number + 1)
        store.wait()
    return {**found, "parameters": shape.parameters}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(Path(sys.argv[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = role(__file__, folder)
    print(f"{found['parameters']:,} parameters")
    names = {"copy": "copy from the device", "blocked": "loop blocked", "at_once": "saved at once"}
    table("seconds", [(names[key], found[key], "s") for key in names])
    ratio("blocked / at once", median(found["blocked"]) / median(found["at_once"]), "at most 0.2")


if __name__ == "__main__":
    main()
