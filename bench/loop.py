"""Throughput of the project's loop against a bare torch_xla loop and against the guide's way.

    nox -s bench -- loop

All train the same model on the same tokens, with the same four virtual devices; rounds alternate.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from common import PACKAGE, begin, ratio, role, table, train

STEPS, ROUNDS, DEVICES = 40, 3, 4


def ours(folder: Path) -> float:
    options = {"train_steps": STEPS, "run_name": "ours", "checkpoint_every": 10 * STEPS}
    for old in folder.glob("runs/ours/checkpoints/*/checkpoint.json"):
        old.unlink()
    return float(train(folder, "--in-process", **options)["tokens_per_second"])


def by_hand(folder: Path, guide: bool) -> float:
    """The loop that one would write first; `guide` also reads the loss at each step and sends
    inputs and targets one after the other."""
    os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES=str(DEVICES))
    import numpy as np
    import torch
    import torch_xla
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    xr.use_spmd()
    mesh = xs.Mesh(np.arange(DEVICES), (DEVICES,), ("fsdp",))
    model, optimizer, batches, train_settings = _parts(folder, mesh)
    began, first = 0.0, True
    for rows in batches:
        tokens = [torch.from_numpy(rows).to("xla")]
        if guide:
            tokens = [
                torch.from_numpy(rows[:, :-1].copy()).to("xla"),
                torch.from_numpy(rows[:, 1:].copy()).to("xla"),
            ]
        for tensor in tokens:
            xs.mark_sharding(tensor, mesh, ("fsdp", None))
        loss = _loss(model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train_settings.clip, foreach=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch_xla.sync()
        if guide or first:
            loss.item()
        if first:
            began, first = time.perf_counter(), False
    loss.item()
    seconds = time.perf_counter() - began
    counted: int = (STEPS - 1) * train_settings.batch_size * train_settings.sequence_length
    return counted / seconds


def _loss(model: Any, tokens: list[Any]) -> Any:
    import torch.nn.functional as F  # noqa: N812

    if len(tokens) == 1:
        return model(tokens[0])
    logits = model.logits(tokens[0].long())
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[1].long().flatten())


def _parts(folder: Path, mesh: Any) -> tuple[Any, Any, Any, Any]:
    """The project's model with its initial weights, a plain AdamW, and the rows of each step."""
    import torch
    import torch_xla
    import torch_xla.distributed.spmd as xs

    load = _module("settings").load
    config = load(Path("run.toml"), [f"data.shards={folder / 'data'}"], local=True)
    index = _module("data").read_index(str(folder / "data"))
    shape = config.model.shape(index.vocab_size)
    model = _module("model").Transformer(shape, torch.bfloat16)
    for name, parameter in list(model.named_parameters()):
        value = _module("model").initial(name, tuple(parameter.shape), shape.layers, 0).to("xla")
        xs.mark_sharding(value, mesh, ("fsdp", *[None] * (value.dim() - 1)))
        owner, _, key = name.rpartition(".")
        model.get_submodule(owner).register_parameter(key, torch.nn.Parameter(value))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=torch.tensor(1e-3, device="xla"), capturable=True, foreach=False
    )
    torch_xla.sync(wait=True)
    train_settings = config.train
    batches = _module("data").TokenBatches(
        str(folder / "data"),
        sequence_length=train_settings.sequence_length,
        batch_size=train_settings.batch_size,
        seed=0,
    )
    return model, optimizer, [batches.batch(step) for step in range(STEPS)], train_settings


def _module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def main() -> None:
    if len(sys.argv) > 1:
        kind, folder = sys.argv[1], Path(sys.argv[2])
        print(json.dumps({"tokens_per_second": by_hand(folder, guide=kind == "guide")}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ours(folder)
        rates: dict[str, list[float]] = {"ours": [], "bare": [], "guide": []}
        for _ in range(ROUNDS):
            rates["ours"].append(ours(folder))
            for kind in ("bare", "guide"):
                rates[kind].append(role(__file__, kind, str(folder))["tokens_per_second"])
    table("tokens/s, without the first step", [(k, v, "tokens/s") for k, v in rates.items()])
    ratio("ours / bare", median(rates["ours"]) / median(rates["bare"]), "at least 0.98")
    ratio("ours / guide", median(rates["ours"]) / median(rates["guide"]), "more is better")


if __name__ == "__main__":
    begin(main)
