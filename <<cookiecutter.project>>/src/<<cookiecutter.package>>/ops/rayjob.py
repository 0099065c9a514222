"""The RayJob of a run, and a Ray cluster to work on by hand: all that KubeRay has to be told."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ..config import Config
from .owned import LIFETIME, Owner, rayjob_name
from .pods import cluster, submitter
from .schedule import HOUR, Schedule

Object = dict[str, Any]

START_SECONDS = 1800
"""How long a job may wait for its nodes, its image and Ray before it counts as never begun."""
TTL_SECONDS = 300
"""How long an ended job's Ray cluster stays, so that its last lines can be read."""


def rayjob(
    config: Config,
    image: str,
    plan: Schedule,
    owner: Owner,
    overrides: Sequence[str] = (),
) -> Object:
    """The object as `kubectl apply` takes it. `ops submit` names the image by digest."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _metadata(owner, plan.lifetime_seconds),
        "spec": {
            "entrypoint": shlex.join(["train", *_flags(owner, overrides)]),
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "activeDeadlineSeconds": plan.try_seconds,
            "preRunningDeadlineSeconds": min(plan.try_seconds, START_SECONDS),
            "backoffLimit": config.cloud.retries,
            "submitterConfig": {"backoffLimit": 2},
            "submitterPodTemplate": submitter(image, owner),
            "rayClusterSpec": cluster(config, image, owner),
        },
    }


def raycluster(config: Config, image: str, plan: Schedule, owner: Owner) -> Object:
    """The same pods without a job. KubeRay never ends it: `ops sweep` does, `ops teardown` too."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": _metadata(
            owner, min(plan.run_seconds, int(config.cloud.deadline_hours * HOUR))
        ),
        "spec": cluster(config, image, owner),
    }


def _metadata(owner: Owner, lifetime_seconds: int) -> Object:
    """What is made without a date expires so long after it was made."""
    named = {"name": rayjob_name(owner.run), "labels": owner.labels()}
    if owner.expires_at is not None:
        return named
    return {**named, "annotations": {LIFETIME: str(lifetime_seconds)}}


def _flags(owner: Owner, overrides: Sequence[str]) -> list[str]:
    settings = [f"run.name={owner.run}", *overrides]
    return [word for setting in settings for word in ("--set", setting)]
