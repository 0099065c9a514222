"""The training step as StableHLO: run in a process of its own, for torch_xla opens once.

    python -m PACKAGE.preflight.export FOLDER

The loop's own code runs, on an accelerator whose tensors have a shape, a type, a sharding and a
name and nothing else: a step of any size is traced without the memory for it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.overrides import TorchFunctionMode

from ..accelerator._base import Reader, dtype_of, training_state
from ..accelerator.xla import BATCH, Xla
from ..config import Config, Train
from ..loop import Trainer
from ..model import Transformer
from ..settings import build
from .faults import in_model

REQUEST, PROGRAMS = "request.json", "programs.json"
ARGUMENT = "argument."
"""Before the name of a tensor that stands for one in the device's memory."""


class NotLowered(Exception):
    """Operations that leave the device and are computed on the host."""


class OnDevice(TorchFunctionMode):
    """Raises NotLowered out of the call that leaves the device, were it only for a constant.

    Of the model's own tensors there are no values: for them torch_xla's error comes first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before = _on_host()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.check()

    def check(self) -> None:
        """The calls of a backward pass do not come by: they show at its end."""
        now = _on_host()
        if left := sorted(name for name in now if now[name] > self._before.get(name, 0)):
            raise NotLowered(" and ".join(left)) from None


def _on_host() -> dict[str, int]:
    """Operations that left the device so far, and how often."""
    import torch_xla.debug.metrics as metrics

    names = [name for name in metrics.counter_names() if name.startswith("aten::")]
    return {name: metrics.counter_value(name) for name in names}


@dataclass
class Program:
    """A graph that the device runs `count` times in a step. `outputs` are in its own order."""

    name: str
    count: int
    outputs: list[str]
    file: str = field(init=False)

    def __post_init__(self) -> None:
        self.file = f"{self.name}.mlir"


class Tracing(Xla):
    """torch_xla that computes nothing: the end of a step is where its graph is written down."""

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config)
        self._folder = folder
        self._loss: dict[str, Tensor] = {}
        self._names, self._counts = _graphs(config.train.accumulation)
        self.programs: list[Program] = []

    def prepare(self, model: Transformer, train: Train, read: Reader) -> AdamW:
        self._model, self._optimizer = model, super().prepare(model, train, read)
        return self._optimizer

    def place(self, tokens: np.ndarray) -> Tensor:
        rows = _argument("batch", tokens.shape, torch.int32)
        return self._xs.mark_sharding(rows, self._mesh, (BATCH, None)).global_tensor

    def mean(self, loss: Tensor) -> Tensor:
        # In parts, the loss would draw the graphs before it into this one.
        self._loss = {"loss": loss} if len(self._names) == 1 else {}
        return loss

    def end_step(self) -> None:
        from torch_xla.core import xla_model

        number = len(self.programs)
        outputs = self._outputs()
        program = Program(self._names[number], self._counts[number], list(outputs))
        content = xla_model.get_stablehlo_bytecode(list(outputs.values()))
        (self._folder / program.file).write_bytes(content)
        self.programs.append(program)
        self._cut()

    def _outputs(self) -> dict[str, Tensor]:
        """What stays in memory when the graph has run."""
        return training_state(self._model, self._optimizer) | self._gradients() | self._loss

    def _gradients(self) -> dict[str, Tensor]:
        return {
            f"gradient.{name}": parameter.grad
            for name, parameter in self._model.named_parameters()
            if parameter.grad is not None
        }

    def _cut(self) -> None:
        """As on the device, the next graph finds this one's gradients in memory, and waits for none
        of its collectives."""
        import torch_xla

        torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
        for name, parameter in self._model.named_parameters():
            if parameter.grad is not None:
                shape = tuple(parameter.shape)
                parameter.grad = _argument(f"gradient.{name}", shape, parameter.grad.dtype)

    def _moved(self, name: str, value: Tensor) -> Tensor:
        return _argument(name, tuple(value.shape), value.dtype)

    def _wait(self) -> None:
        """There is nothing to wait for."""


def _graphs(accumulation: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Name and count of each graph of a step: the loop ends one after each part of the batch."""
    if accumulation == 1:
        return ("step",), (1,)
    return ("first_part", "next_part", "update"), (1, accumulation - 1, 1)


def _argument(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor that takes no memory: a call that the compiling side turns into an argument."""
    from torch_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

    seed = torch.zeros((), device="xla")  # torch_xla wants a call to have an operand
    tensor: Tensor = stablehlo_custom_call([seed], f"{ARGUMENT}{name}", [list(shape)], [dtype])
    return tensor


def on_virtual_devices(config: Config) -> Config:
    """The same step, mesh and batch on as many virtual devices as the slices have real ones."""
    hardware = config.hardware
    virtual = replace(
        hardware,
        accelerator="xla",
        placement="any",
        slices=1,
        workers=1,
        fsdp=hardware.fsdp_devices,
        virtual_devices=hardware.devices,
    )
    return replace(config, hardware=virtual)


def export(config: Config, vocabulary: int, folder: Path) -> list[Program]:
    config = on_virtual_devices(config)
    os.environ.update(
        PJRT_DEVICE="CPU", CPU_NUM_DEVICES=str(config.hardware.devices), XLA_HLO_DEBUG="1"
    )
    model = Transformer(config.model.shape(vocabulary), dtype_of(config.train))
    accelerator = Tracing(config, folder)
    trainer = Trainer.build(_two_parts(config.train), accelerator, model, _shape_only)
    with OnDevice() as watched:
        trainer.step(np.zeros(_rows(trainer.train), np.int32), 0)
    watched.check()
    return accelerator.programs


def _two_parts(train: Train) -> Train:
    """The third part of a batch and those after it run the second one's graph."""
    parts = min(train.accumulation, 2)
    return replace(
        train, accumulation=parts, batch_size=train.batch_size // train.accumulation * parts
    )


def _rows(train: Train) -> tuple[int, int]:
    return train.batch_size, train.sequence_length + 1


def _shape_only(name: str, offset: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, device="meta")


def main() -> None:
    folder = Path(sys.argv[1])
    request = json.loads((folder / REQUEST).read_text("utf-8"))
    config = build(request["config"], REQUEST)
    try:
        programs = export(config, request["vocabulary"], folder)
        found: dict[str, Any] = {"programs": [vars(one) for one in programs]}
    except NotLowered as error:
        found = {"fault": _fault(error)}
    found["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (folder / PROGRAMS).write_text(json.dumps(found), "utf-8")


def _fault(error: NotLowered) -> dict[str, Any]:
    """The operation that has no form on the device, and where in the model's code it stands."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if in_model(Path(one.filename))] or list(frames)
    place = {"file": ours[-1].filename, "line": ours[-1].lineno, "code": ours[-1].line}
    return {"operation": str(error), **place}


if __name__ == "__main__":
    main()
