"""The run as Ray sees it: where its workers are placed, what they run, how it ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import fsspec
import ray
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray.exceptions import RayError
from ray.train import (
    FailureConfig,
    Result,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
    WorkerGroupError,
)
from ray.train.torch import TorchTrainer
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .backend import host_config
from .config import Config, Hardware
from .errors import Failure, NotFound, Refused
from .group import Agreed
from .stop import ask_to_end, on_signals
from .wish import Wish
from .worker import train_worker

START_TIMEOUT_SECONDS = 1800
REACH_SECONDS = 10


def scaling(hardware: Hardware) -> ScalingConfig:
    """Whole slices, reserved by Ray; or `workers` processes wherever they fit."""
    if hardware.placement == "any":
        return ScalingConfig(num_workers=hardware.workers, use_gpu=hardware.accelerator == "cuda")
    return ScalingConfig(
        num_workers=hardware.world,
        use_tpu=True,
        topology=hardware.slice.topology,
        accelerator_type=hardware.slice.ray_type,
        resources_per_worker={"TPU": hardware.tpus_per_worker},
    )


def connect(local: bool) -> None:
    """Starts Ray on this machine, or joins the cluster that RAY_ADDRESS or the pod names."""
    _quiet()
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(START_TIMEOUT_SECONDS))
    try:
        if not local:
            _reach(os.environ.get("RAY_ADDRESS", ""))
        ray.init(address="local" if local else "auto", logging_level="error")
    except Exception as error:  # Ray raises many kinds, Exception itself among them
        raise (_not_started if local else _not_joined)(error) from None


def _not_started(error: Exception) -> Refused:
    return Refused(
        f"Ray did not start: {_first_line(error)}",
        "this machine; Ray's logs are in /tmp/ray/session_latest/logs",
        "free memory and processors and try again, or train without Ray's processes: --in-process",
    )


def _not_joined(error: Exception) -> NotFound:
    return NotFound(
        f"no Ray cluster could be joined: {_first_line(error)}",
        "RAY_ADDRESS, or a cluster on this machine",
        "train on this machine's CPU with --local, or submit the job to a cluster",
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _reach(address: str) -> None:
    """OSError where nobody listens: Ray itself would go on asking for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()


def _quiet() -> None:
    """Without Ray's own announcements; its errors and the workers' lines still come through."""
    logging.getLogger("ray").setLevel(logging.ERROR)


def disconnect() -> None:
    ray.shutdown()


def fit(config: Config) -> dict[str, Any]:
    """Trains on a group of workers; the run's summary. Raises Failure."""
    # On the driver's node: on a host of the slice it would go when that host goes.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    wish = ray.remote(Wish).options(num_cpus=0, scheduling_strategy=here).remote()
    asked = threading.Event()
    on_signals(asked.set, signal.SIGTERM)
    threading.Thread(target=_forward, args=(asked, wish), daemon=True).start()
    trainer = TorchTrainer(
        _train_function,
        train_loop_config={"config": config, "wish": wish},
        scaling_config=scaling(config.hardware),
        torch_config=host_config(config.hardware),
        run_config=_run_config(config),
    )
    return _outcome(trainer.fit)


def fit_in_process(config: Config, bar: bool) -> dict[str, Any]:
    """Trains in this very process through Ray's local mode: the shortest loop. Raises Failure."""
    _quiet()
    # A worker's lines come through Ray; here a bar takes their place, or they go to stderr.
    logging.basicConfig(level=logging.WARNING if bar else logging.INFO, format="%(message)s")
    on_signals(ask_to_end, signal.SIGTERM, signal.SIGINT)

    def function() -> dict[str, Any]:
        try:
            return train_worker(config, bar=bar)
        except Agreed as agreed:
            return {"failure": agreed.failure}

    trainer = TorchTrainer(function, scaling_config=ScalingConfig(num_workers=0))
    return _outcome(trainer.fit)


def _run_config(config: Config) -> RunConfig:
    # Through fsspec, like checkpoints and data: one way to the bucket, one set of rights.
    filesystem, path = fsspec.core.url_to_fs(config.run.storage)
    return RunConfig(
        name=config.run.name,
        storage_path=path,
        storage_filesystem=PyFileSystem(FSSpecHandler(filesystem)),
        failure_config=FailureConfig(max_failures=config.run.retries, max_preemption_failures=-1),
    )


def _outcome(fit: Callable[[], Result]) -> dict[str, Any]:
    """The summary that worker 0 returned, or the fault that ended the run."""
    try:
        outcome: dict[str, Any] = fit().return_value
    except (TrainingFailedError, RayError) as error:
        raise _fault(error) from None
    if failure := outcome.get("failure"):
        raise failure
    return outcome


def _fault(error: Exception) -> Failure:
    """What a worker said, in its words, or what Ray says of how it ended."""
    failures = error.worker_failures if isinstance(error, WorkerGroupError) else {}
    for cause in (getattr(failure, "base_exc", failure) for failure in failures.values()):
        if isinstance(cause, Failure):
            return cause
    return Failure(
        f"the training job failed: {error}",
        "the workers, or the Ray cluster under them",
        "read the first error above; the same command goes on from the newest checkpoint",
    )


def _forward(asked: threading.Event, wish: Any) -> None:
    asked.wait()
    print("asked to end: saving a last checkpoint", flush=True)
    wish.end.remote()


def _train_function(settings: dict[str, Any]) -> dict[str, Any]:
    import ray.train

    wish = settings["wish"]
    try:
        return train_worker(
            settings["config"],
            notice=lambda: ray.train.get_preemption_info() is not None,
            wanted=lambda: ray.get(wish.ended.remote()),
            attempt=lambda: ray.get(wish.attempt.remote()),
        )
    except Agreed as agreed:
        # Returned, not raised: Ray would start all workers again for what no retry mends.
        return {"failure": agreed.failure}
