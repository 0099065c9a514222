"""How long the loop stands still for a checkpoint, against saving and uploading it at once.

    nox -s bench -- checkpoint
    nox -s bench -- checkpoint model.layers=30    # another model
    nox -s bench -- checkpoint idle model.preset=1b model.layers=12

100 million parameters with AdamW on four virtual devices, to a local folder. The loop is blocked by
the copy from the device, and by the checkpoint before where that is still being written. Restoring
is measured in a process of its own, from opening the folder to the state on the devices. Virtual
devices live in this machine's memory, beside the copy that is being written. `idle` trains no step
in between, which saves the memory that a step takes.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common import PACKAGE, begin, ratio, role, table

ROUNDS = 3
MODEL = ("model.preset=125m", "model.layers=15")
BATCH = ("train.batch_size=4", "train.sequence_length=32")
VOCABULARY = 257
IDLE = "idle"
GB = 1e9


def module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def peak() -> float:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


@dataclass
class Run:
    """A model on its devices and a store, without a loop around them."""

    accelerator: Any
    store: Any
    config: Any
    shape: Any

    @classmethod
    def opened(cls, folder: Path, words: list[str]) -> Run:
        given = [word for word in words if word != IDLE]
        config = module("settings").load(Path("run.toml"), [*given, *BATCH], local=True)
        group = module("group").Group()
        accelerator = module("accelerator").open_accelerator(config, group)
        store = module("checkpoint").CheckpointStore(str(folder), keep=2, group=group, identity={})
        return cls(accelerator, store, config, config.model.shape(VOCABULARY))

    def trainer(self, restored: Any = None) -> Any:
        dtype = module("accelerator._base").dtype_of(self.config.train)
        model = module("model").Transformer(self.shape, dtype)
        read = restored.read_slice if restored else module("worker").fresh(model, 0)
        return module("loop").Trainer.build(self.config.train, self.accelerator, model, read)

    def copies(self, trainer: Any) -> Any:
        state = module("accelerator._base").training_state(trainer.model, trainer.optimizer)
        return self.accelerator.snapshot(state)


def saving(folder: Path, words: list[str]) -> dict[str, Any]:
    import numpy as np

    run = Run.opened(folder, words)
    run.store.restore()
    trainer, rows = run.trainer(), np.zeros((4, 33), dtype=np.int32)

    def step(number: int) -> None:
        if IDLE not in words:
            trainer.step(rows, number)[0].item()

    def save(number: int) -> tuple[float, float]:
        """Seconds for the copy from the device, and for it and handing it over."""
        began = time.perf_counter()
        copies = run.copies(trainer)
        copied = time.perf_counter() - began
        run.store.save(number, copies, {})
        return copied, time.perf_counter() - began

    step(0)
    found: dict[str, Any] = {"copy": [], "blocked": [], "at_once": [], "before": peak()}
    for number in range(ROUNDS):
        began = time.perf_counter()
        save(2 * number + 1)
        run.store.wait()
        found["at_once"].append(time.perf_counter() - began)
        copied, blocked = save(2 * number + 2)
        found["copy"].append(copied)
        found["blocked"].append(blocked)
        step(number + 1)
        run.store.wait()
    return {**found, "parameters": run.shape.parameters, "after": peak()}


def restoring(folder: Path, words: list[str]) -> dict[str, Any]:
    run = Run.opened(folder, words)
    began = time.perf_counter()
    trainer = run.trainer(run.store.restore())
    next(iter(trainer.model.parameters())).sum().item()
    return {"seconds": time.perf_counter() - began}


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] in ROLES:
        print(json.dumps(ROLES[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:])))
        return
    if strange := [word for word in sys.argv[1:] if "=" not in word and word != IDLE]:
        sys.exit(f'"{strange[0]}" is no setting; like model.preset=1b, or {IDLE}')
    words = [*MODEL, *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        found = role(__file__, "saving", folder, *words)
        files = [file for file in Path(folder).glob("step-*/*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / len(set(file.parent for file in files))
        restored = role(__file__, "restoring", folder, *words)["seconds"]
    tell(found, size, restored)


def tell(found: dict[str, Any], size: float, restored: float) -> None:
    more = found["after"] - found["before"]
    print(f"{found['parameters']:,} parameters, a checkpoint of {size / GB:.2f} GB")
    names = {"copy": "copy from the device", "blocked": "loop blocked", "at_once": "saved at once"}
    rows = [(names[key], found[key], "s") for key in names]
    table("seconds", [*rows, ("restored", [restored], "s")])
    table("memory", [("more while saving", [more / GB], "GB")])
    ratio("blocked / at once", median(found["blocked"]) / median(found["at_once"]), "at most 0.2")
    ratio("more memory while saving / checkpoint", more / size, "at most 1.1")


ROLES = {"saving": saving, "restoring": restoring}

if __name__ == "__main__":
    begin(main)
