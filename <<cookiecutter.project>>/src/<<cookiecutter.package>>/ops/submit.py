"""Starting a run's job, once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import Failure, InputError
from .desk import Desk
from .gke import Status
from .job import job_of
from .owned import Owner, owner_of, rayjob_name
from .rayjob import rayjob
from .remote import Exists, Missing
from .schedule import CLEANUP_SECONDS, SHORTEST_RUN_SECONDS, Schedule
from .things import pools_of_run

Object = dict[str, Any]


@dataclass(frozen=True)
class Submitted:
    """`new` is False where the run was there already."""

    run: str
    name: str
    state: str
    new: bool
    expires_at: int


def submit(desk: Desk, image: str, plan: Schedule, overrides: Sequence[str] = ()) -> Submitted:
    """Starts the run's job, once: the same run name again is the same run. Raises Failure."""
    check_image(image)
    kube = desk.kube(desk.place)
    name = rayjob_name(desk.run)
    try:
        found = kube.get("rayjobs", name)
    except Missing:
        whose = _owner(desk, plan)
        kept = _until_expiry(desk, plan, whose)
        try:
            found = kube.create("rayjobs", rayjob(desk.config, image, kept, whose, overrides))
            return Submitted(desk.run, name, job_of(found).status, True, whose.expires_at or 0)
        except Exists:
            found = kube.get("rayjobs", name)
    known, job = _checked_owner(desk, found), job_of(found)
    if job.ended and not job.succeeded:
        raise Failure(
            f"the job of run {desk.run} has failed before; nothing was started",
            f"RayJob {name}",
            "run `ops teardown`, which keeps what it left to read, then `ops provision` and this",
        )
    return Submitted(desk.run, name, job.status, False, known.expires_at or 0)


def would_submit(desk: Desk, image: str, plan: Schedule, overrides: Sequence[str]) -> Object:
    """The RayJob as it would be made now; asks nobody. Raises InputError."""
    check_image(image)
    now = int(desk.clock.now())
    owner = Owner(desk.label, desk.run, now, now + plan.lifetime_seconds)
    return rayjob(desk.config, image, plan, owner, overrides)


def _until_expiry(desk: Desk, plan: Schedule, whose: Owner) -> Schedule:
    """The job ends before the sweep takes its node pools, which may be older than it."""
    left = int((whose.expires_at or 0) - CLEANUP_SECONDS - desk.clock.now())
    if left >= plan.run_seconds:
        return plan
    if left < SHORTEST_RUN_SECONDS * plan.tries:
        raise InputError(
            f"the node pools of run {whose.run} are about to expire",
            str(desk.place),
            "run `ops teardown`, then `ops provision` and this again",
        )
    desk.say(f"the run's node pools expire soon: the job ends after {left / 3600:.1f} h")
    return replace(plan, run_seconds=left)


def _owner(desk: Desk, plan: Schedule) -> Owner:
    """The pools' own: what is made for a run expires together."""
    if desk.config.cloud.cluster_mode == "standard":
        ready = [pool for pool in pools_of_run(desk) if pool.state == Status.RUNNING.name]
        if len(ready) < desk.config.hardware.slices:
            raise InputError(
                f"run {desk.run} has {len(ready)} node pools ready and needs "
                f"{desk.config.hardware.slices}",
                str(desk.place),
                "run `ops provision` first",
            )
        return ready[0].owner
    now = int(desk.clock.now())
    return Owner(desk.label, desk.run, now, now + plan.lifetime_seconds)


def _checked_owner(desk: Desk, found: Object) -> Owner:
    who = owner_of(found["metadata"].get("labels") or {})
    if who is None or (who.project, who.run) != (desk.label, desk.run):
        raise InputError(
            f"RayJob {found['metadata']['name']} is not this run's",
            str(desk.place),
            "choose another run.name, or remove that RayJob",
        )
    return who


def check_image(image: str) -> None:
    """An image by digest: a tag can name other bytes tomorrow, or on another host of the slice."""
    if not re.fullmatch(r"[\w.-]+(:\d+)?(/[\w.-]+)+@sha256:[0-9a-f]{64}", image):
        raise InputError(
            f'"{image}" does not name an image by its digest',
            "--image",
            "give REGISTRY/NAME@sha256:..., as `docker push` or Cloud Build print it",
        )
