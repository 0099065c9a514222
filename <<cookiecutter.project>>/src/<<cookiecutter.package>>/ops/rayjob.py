"""The RayJob of a run: everything that GKE, KubeRay and Ray have to be told, from run.toml."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from ..config import Config
from ..slices import Slice
from .capacity import Attempt, attempts
from .owned import Owner, rayjob_name
from .schedule import Schedule

Object = dict[str, Any]

GRACE_SECONDS = 120
"""From the notice that a pod has to go to its end: time for the last checkpoint."""
START_SECONDS = 1800
"""How long a job may wait for its nodes, its image and Ray before it counts as never begun."""
TTL_SECONDS = 300
"""How long an ended job's Ray cluster stays, so that its last lines can be read."""
SERVICE_ACCOUNT = "trainer"
HEAD_MEMORY = "8Gi"
TPU_RESOURCE = "google.com/tpu"


def rayjob(
    config: Config,
    image: str,
    plan: Schedule,
    owner: Owner,
    overrides: Sequence[str] = (),
) -> Object:
    """The object as `kubectl apply` takes it. `image` is named by digest."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": rayjob_name(owner.run), "labels": owner.labels()},
        "spec": {
            "entrypoint": shlex.join(["train", *_flags(owner, overrides)]),
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "activeDeadlineSeconds": plan.run_seconds,
            "preRunningDeadlineSeconds": min(plan.run_seconds, START_SECONDS),
            "backoffLimit": 0,
            "submitterConfig": {"backoffLimit": 2},
            "rayClusterSpec": {
                "headGroupSpec": _head(config, image, owner),
                "workerGroupSpecs": [_workers(config, image, owner)],
            },
        },
    }


def _flags(owner: Owner, overrides: Sequence[str]) -> list[str]:
    settings = [f"run.name={owner.run}", *overrides]
    return [word for setting in settings for word in ("--set", setting)]


def _head(config: Config, image: str, owner: Owner) -> Object:
    ports = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
    container = {
        "name": "ray-head",
        "image": image,
        "env": _environment(config.hardware.slice),
        "ports": [{"containerPort": port, "name": name} for name, port in ports.items()],
        "resources": _both({"cpu": "2", "memory": HEAD_MEMORY}),
    }
    return {
        "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},  # noqa: S104
        "template": _pod(owner, [container]),
    }


def _workers(config: Config, image: str, owner: Owner) -> Object:
    one, slices = config.hardware.slice, config.hardware.slices
    return {
        "groupName": "tpu",
        "numOfHosts": one.hosts,
        "replicas": slices,
        "minReplicas": slices,
        "maxReplicas": slices,
        # Said, because Ray's own detection can come too late on machines that start slowly.
        "rayStartParams": {"resources": f'"{{\\"TPU\\": {one.devices_per_host}}}"'},
        "template": _tpu_pod(config, image, owner),
    }


def _tpu_pod(config: Config, image: str, owner: Owner) -> Object:
    one = config.hardware.slice
    container = {
        "name": "ray-worker",
        "image": image,
        "env": _environment(one),
        "resources": _both({TPU_RESOURCE: str(one.chips_per_host)}),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    pod = _pod(owner, [container])
    pod["spec"] |= {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": _selectors(config, owner),
        "tolerations": _tolerations(config),
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return pod


def _selectors(config: Config, owner: Owner) -> dict[str, str]:
    """The kind of slice; and the run's own pools, or on Autopilot the kind of capacity."""
    one = config.hardware.slice
    selectors = {
        "cloud.google.com/gke-tpu-accelerator": one.accelerator_label,
        "cloud.google.com/gke-tpu-topology": one.topology,
    }
    if config.cloud.cluster_mode == "standard":
        return selectors | {"project": owner.project, "run": owner.run}
    return selectors | _autopilot_selectors(attempts(config.cloud)[0])


def _autopilot_selectors(first: Attempt) -> dict[str, str]:
    """Autopilot makes one kind of node for a pod: the first in the list."""
    kind = {
        "spot": {"cloud.google.com/gke-spot": "true"},
        "flex-start": {"cloud.google.com/gke-flex-start": "true"},
        "reservation": {
            "cloud.google.com/reservation-name": first.reservation.rpartition("/")[2],
            "cloud.google.com/reservation-affinity": "specific",
        },
    }
    return {"topology.kubernetes.io/zone": first.zone, **kind.get(first.kind, {})}


def _tolerations(config: Config) -> list[Object]:
    kinds = {attempt.kind for attempt in attempts(config.cloud)}
    taints = {"spot": "cloud.google.com/gke-spot", "flex-start": "cloud.google.com/gke-queued"}
    keys = [TPU_RESOURCE, *(taint for kind, taint in taints.items() if kind in kinds)]
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _pod(owner: Owner, containers: list[Object]) -> Object:
    return {
        "metadata": {"labels": owner.labels()},
        "spec": {"serviceAccountName": SERVICE_ACCOUNT, "containers": containers},
    }


def _environment(one: Slice) -> list[Object]:
    node = {"fieldRef": {"fieldPath": "status.hostIP"}}
    found: list[Object] = [
        {"name": "NODE_IP", "valueFrom": node},
        {"name": "VBAR_CONTROL_SERVICE_URL", "value": "$(NODE_IP):8353"},
    ]
    if one.generation == "7x":
        found.append({"name": "RAY_TPU_RESOURCE_PER_CHIP", "value": "2"})
    return found


def _both(resources: dict[str, str]) -> Object:
    return {"requests": dict(resources), "limits": dict(resources)}
