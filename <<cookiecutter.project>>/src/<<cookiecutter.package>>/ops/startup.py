"""How a run came to its first step: what took how long, as far as cluster and run tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from .runs import moment

Object = dict[str, Any]
Phase = tuple[str, float]
"""A name and seconds."""

IN_WORKER = ("device", "storage", "restore", "model", "first_step")
_PULLED = re.compile(r"Successfully pulled image .*? in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?")


def startup(job: Object | None, events: Iterable[Object], summary: Object) -> tuple[Phase, ...]:
    """In the order in which they come; `image` is the longest pull, which the pods waited for.

    `job` is the RayJob, `summary` what the run wrote at its end. What nobody tells is left out.
    """
    told = summary.get("phases") or {}
    return (
        *_outside(job or {}, summary),
        *(("image", pulled) for pulled in [max(map(_pulled, events), default=0.0)] if pulled),
        *((name, float(told[name])) for name in IN_WORKER if name in told),
    )


def _outside(job: Object, summary: Object) -> list[Phase]:
    status = job.get("status") or {}
    cluster = (status.get("rayClusterStatus") or {}).get("stateTransitionTimes") or {}
    marks = (
        ("", moment(status.get("startTime"))),
        ("pods", moment(cluster.get("ready"))),
        ("job", moment((status.get("rayJobInfo") or {}).get("startTime"))),
        ("workers", summary.get("started_at")),
    )
    spans = [(name, begun, ended) for (_, begun), (name, ended) in pairwise(marks)]
    return [
        (name, ended - begun) for name, begun, ended in spans if begun and ended and ended >= begun
    ]


def _pulled(event: Object) -> float:
    """Seconds that a pull took, of the event that tells its end."""
    found = _PULLED.match(str(event.get("message")))
    if found is None:
        return 0.0
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
