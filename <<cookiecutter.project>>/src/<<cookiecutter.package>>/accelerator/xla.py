"""torch_xla: one process a host, SPMD over all devices, TPU chips or virtual ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW

from ..checkpoint import State
from ..config import Config, Train
from ..errors import NotFound
from ..group import Group
from ..model import Attention, Linear, Transformer
from ._attention import attend
from ._base import Reader, decay_groups, seed_optimizer
from ._compiled import Compiled
from ._gathered import gathered
from ._lookup import Layout, Spec, look_up
from ._shards import entry

BATCH = ("data", "fsdp")


def open_accelerator(config: Config, group: Group) -> Xla:
    """Chooses the runtime before torch_xla is loaded, and checks what it finds."""
    virtual = config.hardware.virtual_devices
    # The runtime's warnings are about its own future.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["PJRT_DEVICE"] = "CPU" if virtual else "TPU"
    if virtual:
        os.environ["CPU_NUM_DEVICES"] = str(virtual)
    # The CPU's compiler cannot read again what it made.
    compiled = None if virtual else _compiled(config)
    return Xla(config, compiled, keeps=group.rank == 0)


def _compiled(config: Config) -> Compiled:
    """What an earlier start compiled is there before the runtime is opened."""
    import torch_xla.runtime as xr

    compiled = Compiled(f"{config.run.storage.rstrip('/')}/compiled")
    compiled.fetch()
    xr.initialize_cache(str(compiled.here))
    return compiled


def layout(shape: tuple[int, ...], devices: int) -> int | None:
    """The dimension of a parameter that is cut over `devices`: the first that divides, or none."""
    return next((i for i, size in enumerate(shape) if size and size % devices == 0), None)


def _found(config: Config) -> tuple[str, int]:
    """Kind and number of the run's devices. Raises NotFound unless they are what run.toml names."""
    import torch_xla.runtime as xr

    hardware = config.hardware
    wanted = ("CPU" if hardware.virtual_devices else "TPU", hardware.devices)
    try:
        found = (str(xr.device_type()), int(xr.global_runtime_device_count()))
        seen = f"found {found[1]} {found[0]} devices"
    except (OSError, RuntimeError) as error:
        found, seen = ("none", 0), f"could not open a {wanted[0]} ({str(error).splitlines()[0]})"
    if found != wanted:
        raise NotFound(
            f"this worker {seen}, and run.toml asks for {wanted[1]} {wanted[0]} devices",
            f"hardware.generation = {hardware.generation}, topology = {hardware.topology}",
            "correct [hardware], or train on this machine's CPU with --local",
        )
    return found


class Xla:
    """See `Accelerator`."""

    def __init__(
        self, config: Config, compiled: Compiled | None = None, keeps: bool = False
    ) -> None:
        import torch_xla.distributed.spmd as xs
        import torch_xla.runtime as xr

        xr.use_spmd()
        self._xs = xs
        self.kind, self.devices = _found(config)
        self._fsdp = config.hardware.fsdp_devices
        shape = (self.devices // self._fsdp, self._fsdp)
        self._mesh = xs.Mesh(np.arange(self.devices), shape, BATCH)
        self._compiled, self._keeps = compiled, keeps

    def prepare(self, model: Transformer, train: Train, read: Reader) -> AdamW:
        for name, module, key in _parameters(model):
            value = self._sharded(read, f"model.{name}", tuple(getattr(module, key).shape))
            parameter = torch.nn.Parameter(value)
            # What a program leaves in memory is whole on every device unless it is told otherwise:
            # with an accumulated batch that is all gradients.
            after_backward = parameter.register_post_accumulate_grad_hook
            after_backward(self._cut_gradient)  # type: ignore[no-untyped-call]
            module.register_parameter(key, parameter)
        model.constrain = self._constrain
        model.embedding.forward = partial(self._look_up, model)  # type: ignore[method-assign]
        for module in model.modules():
            if isinstance(module, Attention):
                module.attend = self._attend
        if train.activation_checkpointing:
            self._recompute(model)
        rate = torch.tensor(train.learning_rate, device="xla")
        optimizer = AdamW(
            decay_groups(model, train.weight_decay),
            lr=rate,
            betas=(0.9, 0.95),
            capturable=True,
            foreach=False,
        )
        seed_optimizer(
            optimizer,
            model,
            lambda name, like: self._sharded(read, name, tuple(like.shape)),
            lambda name: self._sharded(read, name, ()),
        )
        self._wait()
        return optimizer

    def place(self, tokens: np.ndarray) -> Tensor:
        from torch_xla.core import xla_model

        spec = self._xs.ShardingSpec(self._mesh, (BATCH, None), minibatch=True)
        rows = [torch.from_numpy(tokens)]
        return xla_model.send_cpu_data_to_device(rows, "xla", input_sharding=spec)[0]

    def set_learning_rate(self, optimizer: AdamW, value: float) -> None:
        # As a Python number it would be a constant of the graph, and each step a new graph.
        rate = torch.tensor(value).to("xla")
        for group in optimizer.param_groups:
            group["lr"] = rate

    def mean(self, loss: Tensor) -> Tensor:
        return loss

    def end_step(self) -> None:
        import torch_xla

        torch_xla.sync()

    def snapshot(self, state: Mapping[str, Tensor]) -> State:
        return {name: entry(tensor) for name, tensor in state.items()}

    def compiled_graphs(self) -> int:
        import torch_xla.debug.metrics as metrics

        data = metrics.metric_data("CompileTime")
        return int(data[0]) if data else 0

    def keep_compiled(self) -> None:
        # The hosts of a slice compile the same.
        if self._compiled and self._keeps:
            self._compiled.keep()

    def _sharded(self, read: Reader, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._moved(name, read(name, (0,) * len(shape), shape))
        self._xs.mark_sharding(tensor, self._mesh, self._spec(shape))
        return tensor

    def _cut_gradient(self, parameter: Tensor) -> None:
        self._xs.mark_sharding(parameter.grad, self._mesh, self._spec(tuple(parameter.shape)))

    def _moved(self, name: str, value: Tensor) -> Tensor:
        return value.to("xla")

    def _spec(self, shape: tuple[int, ...]) -> Spec:
        cut = layout(shape, self._fsdp)
        return tuple("fsdp" if i == cut else None for i in range(len(shape)))

    def _constrain(self, x: Tensor) -> Tensor:
        spec = (BATCH, *(None,) * (x.dim() - 1))
        return self._xs.mark_sharding_with_gradients(x, self._mesh, spec)

    def _look_up(self, model: Transformer, tokens: Tensor) -> Tensor:
        """The gradient of the rows is cut like their table before the head's is added to it: else
        sixteen devices gather a whole one in float32. Where a batch has more tokens than there are
        rows, that takes more than telling the partitioner how it lies."""
        table = model.embedding.weight
        spec = self._spec(tuple(table.shape))
        if "fsdp" in spec and self._fsdp > 1 and tokens.numel() > len(table):
            return look_up(table, tokens, Layout(self._mesh, spec), model.dtype)
        table = self._xs.mark_sharding_with_gradients(table, self._mesh, spec)
        return F.embedding(tokens, table)

    def _recompute(self, model: Transformer) -> None:
        model.checkpoint = _checkpoint
        for module in model.blocks.modules():
            if isinstance(module, Linear):
                module.forward = partial(self._multiply, module)  # type: ignore[method-assign]

    def _multiply(self, one: Linear, x: Tensor) -> Tensor:
        spec = self._spec(tuple(one.weight.shape))
        return F.linear(x, gathered(one.weight.to(x.dtype), self._mesh, spec))

    def _attend(self, *inputs: Tensor) -> Tensor:
        """Each device for its own sequences: left alone, the compiler cuts some heads."""
        return self._constrain(attend(*map(self._constrain, inputs)))

    def _wait(self) -> None:
        import torch_xla

        torch_xla.sync(wait=True)


def _parameters(model: Transformer) -> list[tuple[str, nn.Module, str]]:
    """Each parameter's full name, the module that owns it, and its name there."""
    return [
        (f"{path}.{key}" if path else key, module, key)
        for path, module in model.named_modules()
        for key, _ in module.named_parameters(recurse=False)
    ]


def _checkpoint(block: nn.Module, *inputs: Tensor) -> Tensor:
    from torch_xla.utils.checkpoint import checkpoint

    # Of a bound method torch_xla also holds the weights back: else what is gathered for the forward
    # pass is kept for the backward pass, of all layers.
    return checkpoint(block.forward, *inputs, use_reentrant=True)
