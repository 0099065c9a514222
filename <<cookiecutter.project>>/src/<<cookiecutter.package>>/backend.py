"""How the workers of a run find each other, before the training function starts in each of them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Any

import ray
import torch.distributed as dist
from ray.train.backend import Backend
from ray.train.torch import TorchConfig
from ray.train.torch.config import _TorchBackend
from ray.util.tpu import get_tpu_coordinator_env_vars
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from .config import Hardware
from .stop import ask_to_save, on_signals

_store: TCPStore | None = None  # rank 0's, between opening it and the workers' joining


@dataclass
class HostConfig(TorchConfig):
    """gloo for torch_xla and the CPU, Ray's own set-up for the devices that it knows."""

    slices: int = 1

    @property
    def backend_cls(self) -> type[Backend]:
        return HostBackend if self.backend == "gloo" else DeviceBackend


def host_config(hardware: Hardware) -> HostConfig:
    backends = {"cuda": "nccl", "tpu": "tpu_dist"}
    slices = hardware.slices if hardware.placement == "slice" else 1
    return HostConfig(backend=backends.get(hardware.accelerator, "gloo"), slices=slices)


class HostBackend(Backend):
    """A gloo group of hosts.

    Ray's own set-up asks each worker that holds TPU resources for its torch device, and fails
    without TorchTPU; torch_xla needs no torch device, only the hosts to know each other.
    """

    def on_start(self, worker_group: Any, backend_config: HostConfig) -> None:
        address, port = worker_group.execute_single(0, _open_store)
        world = len(worker_group)
        joins = [
            worker_group.execute_single_async(rank, _join, address, port, rank, world)
            for rank in range(world)
        ]
        ray.get(joins)
        if backend_config.slices > 1:
            _join_slices(worker_group, address, backend_config.slices)
        worker_group.execute(_save_on_sigterm)


class DeviceBackend(_TorchBackend):
    """Ray's own set-up, for the devices that it knows."""

    def on_start(self, worker_group: Any, backend_config: HostConfig) -> None:
        super().on_start(worker_group, backend_config)
        worker_group.execute(_save_on_sigterm)


def _open_store() -> tuple[str, int]:
    """Where the workers meet: this host, and a port that nobody can take any more."""
    global _store
    _store = TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)  # noqa: S104
    return ray.util.get_node_ip_address(), _store.port


def _join(address: str, port: int, rank: int, world: int) -> None:
    store = _store if rank == 0 else TCPStore(address, port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)


def _join_slices(worker_group: Any, address: str, slices: int) -> None:
    """What libtpu must know to speak with the other slices; ranks are counted slice by slice."""
    each = len(worker_group) // slices
    settings = [
        worker_group.execute_single_async(
            rank,
            os.environ.update,
            get_tpu_coordinator_env_vars(address, num_slices=slices, slice_id=rank // each),
        )
        for rank in range(len(worker_group))
    ]
    ray.get(settings)


def _save_on_sigterm() -> None:
    """In the worker's main thread: the training function runs in another, where Python lets nobody
    handle signals."""
    on_signals(ask_to_save, signal.SIGTERM)
