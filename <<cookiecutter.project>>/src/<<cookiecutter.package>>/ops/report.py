"""What a run achieved and what it cost: from its metrics, its checkpoints and its ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..errors import Failure
from ..metrics import METRICS, SUMMARY, read_rows
from . import storage
from .cost import Prices
from .desk import Desk
from .job import job_of
from .ledger import entries
from .ledger import read as read_ledger
from .owned import rayjob_name
from .reasons import concerning
from .remote import Missing
from .runs import ended_at, started_at
from .startup import Phase, startup
from .things import of_run

Row = dict[str, Any]
FOLDER = "report"
MOST_POINTS = 2000
"""A picture shows no more, and a long run has hundreds of thousands."""


@dataclass(frozen=True)
class Report:
    """None stands for what is not known. `points` are (step, loss); `usd` is an upper bound;
    `startup` is what came before the first step was done, in seconds."""

    run: str
    state: str
    slice: str
    chips: int
    step: int
    steps: int
    points: tuple[tuple[int, float], ...]
    tokens_per_second: float | None
    mfu: float | None
    goodput: float | None
    seconds: float | None
    startup: tuple[Phase, ...]
    chip_hours: float
    usd: float | None
    checkpoint: str | None
    folder: str

    @property
    def picture(self) -> str:
        return f"{self.folder}/{FOLDER}/loss.svg"

    @property
    def finished(self) -> bool:
        return self.step >= self.steps


def gather(desk: Desk, prices: Prices) -> Report:
    """Raises Refused where the bucket cannot be read, Failure."""
    config, folder = desk.config, desk.config.run.folder
    # First: who is not logged in learns it here, and not as a fault of the bucket.
    asked = _asked(desk)
    job = _job(desk) if asked else None
    texts = storage.read_all(f"{folder}/{METRICS}")
    rows = read_rows(texts[0]) if texts else []
    path, checkpoint = _checkpoint(folder)
    begun, ended = (started_at(job), _end(desk, job)) if job else (None, None)
    chip_hours, usd = _spent(desk, prices) if asked else (0.0, None)
    return Report(
        run=desk.run,
        state=_state(job) if asked else "as this machine knows it",
        slice=f"{config.hardware.slices} x {config.hardware.generation} {config.hardware.topology}",
        chips=config.hardware.slice.chips * config.hardware.slices,
        step=rows[-1]["step"] + 1 if rows else 0,
        steps=config.train.steps,
        points=_points(rows),
        tokens_per_second=_usual(rows, "tokens_per_second"),
        mfu=_usual(rows, "mfu"),
        goodput=_goodput(checkpoint, ended),
        seconds=ended - begun if ended and begun else None,
        startup=startup(job, _events(desk, job), _summary(folder)),
        chip_hours=chip_hours,
        usd=usd,
        checkpoint=path,
        folder=folder,
    )


def _asked(desk: Desk) -> bool:
    """Whether the cluster answers: what trained on this machine can be told without it."""
    if "://" in desk.config.run.folder:
        return True
    try:
        desk.kube(desk.place)
    except Failure as fault:
        desk.say(f"told without the cluster: {fault.what}")
        return False
    return True


def _points(rows: Sequence[Row]) -> tuple[tuple[int, float], ...]:
    """The loss where it is drawn; the newest one is among them."""
    stride = max(1, -(-len(rows) // MOST_POINTS))
    return tuple((row["step"] + 1, row["loss"]) for row in rows[::-stride][::-1])


def _usual(rows: Sequence[Row], key: str) -> float | None:
    """Of the steps after the first, which compiles."""
    values = [row[key] for row in rows[1:] if row.get(key) is not None]
    return median(values) if values else None


def _checkpoint(folder: str) -> tuple[str | None, Row]:
    """The newest complete checkpoint's folder, and its document."""
    kept = storage.read_named(f"{folder}/checkpoints/step-*/checkpoint.json")
    found = [(json.loads(text)["content"], name) for name, text in kept.items()]
    if not found:
        return None, {}
    content, name = max(found, key=lambda pair: pair[0]["step"])
    return f"{folder}/checkpoints/{name.split('/')[-2]}", content


def _goodput(checkpoint: Row, ended: float | None) -> float | None:
    """Share of the time since the run began, over all its attempts, in steps that it kept."""
    progress = checkpoint.get("progress") or {}
    if ended is None or "began" not in progress:
        return None
    passed = ended - float(progress["began"])
    return min(1.0, float(progress["productive_seconds"]) / passed) if passed > 0 else None


def _job(desk: Desk) -> Row | None:
    try:
        return desk.kube(desk.place).get("rayjobs", rayjob_name(desk.run))
    except Missing:
        return None


def _events(desk: Desk, job: Row | None) -> list[Row]:
    """Those of the job's pods; Kubernetes forgets them after an hour."""
    cluster = ((job or {}).get("status") or {}).get("rayClusterName")
    return concerning(desk.kube(desk.place).events(), [cluster]) if cluster else []


def _summary(folder: str) -> Row:
    """What the run wrote at its end."""
    found = storage.read_all(f"{folder}/{SUMMARY}")
    return dict(json.loads(found[0])) if found else {}


def _state(job: Row | None) -> str:
    if job is None:
        return "no job"
    found = job_of(job)
    if found.succeeded:
        return "succeeded"
    return f"failed: {found.reason or found.status}" if found.ended else "still running"


def _end(desk: Desk, job: Row) -> float | None:
    return ended_at(job) if job_of(job).ended else desk.clock.now()


def _spent(desk: Desk, prices: Prices) -> tuple[float, float | None]:
    """Chip-hours and dollars so far, those of earlier attempts included."""
    now = entries(desk, of_run(desk).things, prices)
    begun = {entry.created_at for entry in now}
    past = [entry for entry in read_ledger(desk, desk.run) if entry.created_at not in begun]
    costs = [entry.usd for entry in [*past, *now]]
    known = [usd for usd in costs if usd is not None]
    hours = sum(entry.chip_hours for entry in [*past, *now])
    return hours, sum(known) if len(known) == len(costs) else None
