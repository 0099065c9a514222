"""Runs the units of a job on the cluster with Ray Data, quietly."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ..errors import Failure
from .documents import InputFile
from .packing import Job, Outcome, pack_unit


def outcomes(units: list[list[InputFile]], job: Job) -> Iterator[Outcome]:
    """What comes of all units, as soon as it comes; a unit's own outcomes are in order."""
    import ray
    from ray.data import from_items
    from ray.data.exceptions import ExecutionTimeoutError

    rows = [
        {"unit": unit, "urls": [file.url for file in files]} for unit, files in enumerate(units)
    ]
    with _quiet_stream():
        dataset = from_items(rows, override_num_blocks=len(rows))
        packed = dataset.flat_map(partial(pack_unit, job=job))
        try:
            for row in packed.iter_rows():
                yield pickle.loads(row["outcome"])  # noqa: S301 (pack_unit's own)
        except ray.exceptions.UserCodeException:
            raise  # an error in this package: its stack is what is needed
        except (ray.exceptions.RayError, ExecutionTimeoutError) as error:
            reason = str(error).partition("\n")[0]
            remedy = "see that the cluster has room, and memory for a task on each core; run again"
            raise Failure(f"Ray Data gave up: {reason}", job.root, remedy) from error


@contextmanager
def _quiet_stream() -> Iterator[None]:
    """Keeps Ray Data's bars and messages off the console; its log file still has them.

    Blocks of one row reach the driver at once. They show progress, also to Ray Data itself, which
    ends what yields nothing for half an hour.
    """
    from ray.data import DataContext

    context = DataContext.get_current()
    before = context.enable_progress_bars, context.target_max_block_size
    handlers = logging.getLogger("ray.data").handlers
    consoles = [each for each in handlers if type(each).__name__ == "PlainRayHandler"]
    levels = [handler.level for handler in consoles]
    context.enable_progress_bars, context.target_max_block_size = False, 1
    for handler in consoles:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        context.enable_progress_bars, context.target_max_block_size = before
        for handler, level in zip(consoles, levels, strict=True):
            handler.setLevel(level)
