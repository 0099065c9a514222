"""Why a job's pods do not start, in words: capacity, quota, image, webhook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .faults import Kind, kind_of_text
from .pods import TPU_RESOURCE

Object = dict[str, Any]


@dataclass(frozen=True)
class Reason:
    """`kind` is "capacity", "quota", "image", "webhook" or "scheduling"."""

    kind: str
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}\n  what to do: {self.remedy}"


_IMAGE = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName")
_REMEDIES = {
    "capacity": "wait, or run `ops teardown` and try another zone or kind of capacity",
    "quota": "ask for more quota (console: IAM & Admin, Quotas), or choose a smaller topology",
    "image": "check that the image was pushed and that the nodes' service account may read it",
    "webhook": "see that the Ray operator's TPU webhook runs: `ops doctor`",
    "scheduling": "compare the node selectors with the node pools: `ops doctor`",
}


def reasons(pods: Iterable[Object], events: Iterable[Object]) -> list[Reason]:
    """What keeps these pods from running, each reason once."""
    events = list(events)
    pods = list(pods)
    found = [_image(pod) for pod in pods] + [_event(event) for event in events] + [_node(pods)]
    return list(dict.fromkeys(reason for reason in found if reason))


def concerning(events: Iterable[Object], names: Iterable[str]) -> list[Object]:
    """The events about objects whose names begin with one of these."""
    starts = tuple(names)
    return [
        e for e in events if str((e.get("involvedObject") or {}).get("name")).startswith(starts)
    ]


def _image(pod: Object) -> Reason | None:
    for state in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (state.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _IMAGE:
            text = waiting.get("message") or state.get("image", "")
            return _reason("image", f"the image cannot be pulled: {text}")
    return None


def _node(pods: Iterable[Object]) -> Reason | None:
    """GKE says nothing while flex-start waits for machines: then the pods themselves tell."""
    waiting = [pod for pod in pods if _wants_tpu(pod) and not pod["spec"].get("nodeName")]
    return _reason("capacity", "pods wait for their TPU nodes") if waiting else None


def _wants_tpu(pod: Object) -> bool:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return any(TPU_RESOURCE in ((c.get("resources") or {}).get("limits") or {}) for c in containers)


def _event(event: Object) -> Reason | None:
    message, why = event.get("message") or "", event.get("reason") or ""
    if why == "FailedScaleUp":
        kind = "quota" if kind_of_text(message) is Kind.QUOTA else "capacity"
        return _reason(kind, f"no TPU nodes come: {message}")
    if re.search(r"admission webhook|failed calling webhook", message):
        return _reason("webhook", f"the pods are refused: {message}")
    if why == "NotTriggerScaleUp":
        return _reason("scheduling", f"no node pool fits the pods: {message}")
    return None


def _reason(kind: str, text: str) -> Reason:
    return Reason(kind, " ".join(text.split()), _REMEDIES[kind])
