"""What runs in each worker: opens what the loop needs, in the order in which it can fail."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any

import torch

from .accelerator import open_accelerator
from .accelerator._base import Accelerator, Reader, dtype_of
from .checkpoint import Checkpoint, CheckpointStore
from .config import Config
from .data import TokenBatches, read_index
from .group import Group
from .loop import Loop, Trainer
from .metrics import SUMMARY
from .mirror import Mirror
from .model import Transformer, initial
from .shapes import Shape
from .stop import Stop
from .telemetry import Bar, JsonLines, Lines, Phases, Sink, Telemetry, TensorBoard


def train_worker(
    config: Config,
    notice: Callable[[], bool] = lambda: False,
    wanted: Callable[[], bool] = lambda: False,
    attempt: Callable[[], int] = lambda: 1,
    bar: bool = False,
) -> dict[str, Any]:
    """Trains until the last step, or until asked to end; the run's summary.

    Raises Agreed, on all workers, for what no retry mends: hardware that is not there, data or
    checkpoints that cannot be used, storage that refuses.
    """
    phases, group = Phases(), Group()
    start_up = {"started_at": time.time(), "attempt": attempt() if group.rank == 0 else 0}
    with ExitStack() as stack:
        with phases("device"):
            accelerator = group.together(lambda: open_accelerator(config, group))
        with phases("storage"):
            index = group.together(lambda: read_index(config.data.shards))
            shape = config.model.shape(index.vocab_size)
            store = _store(config, group, shape, index.tokenizer)
            group.together(store.probe)
        stack.enter_context(closing(store))
        with phases("restore"):
            restored = group.together(store.restore)
        start = restored.step if restored else 0
        batches = stack.enter_context(closing(group.together(lambda: _batches(config, group))))
        stream = stack.enter_context(closing(batches.iterate(start, config.train.steps)))
        with phases("model"):
            trainer = _trainer(config, accelerator, shape, restored)
        mirror = Mirror(config.run.folder)
        telemetry = _telemetry(config, shape, mirror, group.rank, restored, bar)
        stack.enter_context(closing(telemetry))
        loop = Loop(
            config, trainer, stream, store, telemetry, Stop(group, notice, wanted), phases, mirror
        )
        done = loop.run(start)
    summary = _summary(config, shape, loop, start, done) | start_up
    if group.rank == 0:
        (mirror.folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
        mirror.push()
    return summary


def _store(config: Config, group: Group, shape: Shape, tokenizer: str) -> CheckpointStore:
    return CheckpointStore(
        f"{config.run.folder}/checkpoints",
        keep=config.checkpoint.keep,
        group=group,
        identity={**asdict(shape), "tokenizer": tokenizer},
    )


def _batches(config: Config, group: Group) -> TokenBatches:
    return TokenBatches(
        config.data.shards,
        sequence_length=config.train.sequence_length,
        batch_size=config.train.batch_size,
        seed=config.run.seed,
        rank=group.rank,
        world=group.world,
    )


def _trainer(
    config: Config, accelerator: Accelerator, shape: Shape, restored: Checkpoint | None
) -> Trainer:
    model = Transformer(shape, dtype_of(config.train))
    read = restored.read_slice if restored else fresh(model, config.run.seed)
    return Trainer.build(config.train, accelerator, model, read)


def fresh(model: Transformer, seed: int) -> Reader:
    """The state of a run before its first step, by the names that a checkpoint uses."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    def read(name: str, offset: tuple[int, ...], size: tuple[int, ...]) -> torch.Tensor:
        part, _, rest = name.partition(".")
        if part == "optimizer":
            return torch.zeros(size)
        whole = initial(rest, shapes[rest], model.shape.layers, seed)
        return whole[tuple(slice(o, o + s) for o, s in zip(offset, size, strict=True))]

    return read


def _telemetry(
    config: Config,
    shape: Shape,
    mirror: Mirror,
    rank: int,
    restored: Checkpoint | None,
    bar: bool,
) -> Telemetry:
    train, start = config.train, restored.step if restored else 0
    return Telemetry(
        _sinks(config, mirror, start, bar) if rank == 0 else [],
        tokens=train.tokens_per_step,
        flops=shape.flops_per_token(train.sequence_length),
        peak=config.hardware.peak_flops,
        earlier=restored.progress if restored else {},
    )


def _sinks(config: Config, mirror: Mirror, start: int, bar: bool) -> list[Sink]:
    steps = config.train.steps
    shown: Sink = Bar(start, steps) if bar else Lines(config.log.every, start, steps)
    return [JsonLines(mirror, start), TensorBoard(mirror, start), shown]


def _summary(config: Config, shape: Shape, loop: Loop, start: int, done: int) -> dict[str, Any]:
    telemetry = loop.telemetry
    rows, rate = telemetry.rows, telemetry.tokens_per_second
    accelerator = loop.trainer.accelerator
    return {
        "run": config.run.name,
        "folder": config.run.folder,
        "steps": done,
        "of_steps": config.train.steps,
        "went_on_from": start,
        "first_loss": rows[0]["loss"] if rows else None,
        "last_loss": rows[-1]["loss"] if rows else None,
        "tokens_per_step": config.train.tokens_per_step,
        "parameters": shape.parameters,
        "devices": accelerator.devices,
        "device_kind": accelerator.kind,
        "tokens_per_second": rate,
        "mfu": telemetry.mfu(rate),
        "goodput": telemetry.goodput,
        "data_wait_seconds": sum(row["data_seconds"] for row in rows[1:]),
        "compiled_graphs": accelerator.compiled_graphs(),
        "compiled_after_second_step": loop.compiled_late,
        "phases": loop.phases.seconds,
    }
