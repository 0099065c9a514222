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
IMAGE = "of_it_image"
"""Within the phase before it: pods are ready when their image is there."""
_TIME = r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s|[\d.]+ms)?"
_PULLED = re.compile(
    rf"Successfully pulled image .*? in {_TIME}(?: \({_TIME} including waiting\))?"
)


def startup(job: Object | None, events: Iterable[Object], summary: Object) -> tuple[Phase, ...]:
    """In the order in which they come; of several pulls the longest, which the pods waited for.

    `job` is the RayJob, `summary` what the run wrote at its end. What nobody tells is left out.
    """
    told = summary.get("phases") or {}
    outside = _outside(job or {}, summary)
    pods = sum(name == "pods" for name, _ in outside)
    pulled = max(map(_pulled, events), default=0.0)
    return (
        *outside[:pods],
        *([(IMAGE, pulled)] if pulled else []),
        *outside[pods:],
        *((name, float(told[name])) for name in IN_WORKER if name in told),
    )


def _outside(job: Object, summary: Object) -> list[Phase]:
    status = job.get("status") or {}
    cluster = (status.get("rayClusterStatus") or {}).get("stateTransitionTimes") or {}
    marks = (
        ("", moment(status.get("startTime"))),
        ("pods", moment(cluster.get("ready"))),
        ("job", moment((status.get("rayJobInfo") or {}).get("startTime"))),
        ("workers", _workers(summary)),
    )
    spans = [(name, begun, ended) for (_, begun), (name, ended) in pairwise(marks)]
    return [
        (name, ended - begun) for name, begun, ended in spans if begun and ended and ended >= begun
    ]


def _workers(summary: Object) -> float | None:
    """When the job's first workers began: later ones began after those had worked."""
    return summary.get("started_at") if summary.get("attempt", 1) == 1 else None


def _pulled(event: Object) -> float:
    """Seconds until an image was there, of the event that tells it."""
    found = _PULLED.match(str(event.get("message")))
    if found is None:
        return 0.0
    working, waiting = (_seconds(found.groups()[at : at + 3]) for at in (0, 3))
    return max(working, waiting)


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds = (float(part or 0) for part in parts)
    return hours * 3600 + minutes * 60 + seconds
