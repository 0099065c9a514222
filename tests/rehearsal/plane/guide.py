"""The Ray cluster of the guide that this template grew from, and what is wrong with it, by parts."""

from __future__ import annotations

from typing import Any

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
IMAGE = "rayproject/ray:2.40.0"


def cluster(name: str, group: dict[str, Any] | None = None, **selectors: str) -> dict[str, Any]:
    """`group` changes the worker group, `selectors` are more than the guide's one."""
    tpu = {"google.com/tpu": "4"}
    selector = {ACCELERATOR: "tpu-v5-lite-podslice", **selectors}
    worker = {"name": "ray-worker", "image": IMAGE, "resources": {"requests": tpu, "limits": tpu}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "rayVersion": "2.40.0",
            "headGroupSpec": {
                "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104
                "template": {"spec": {"containers": [{"name": "ray-head", "image": IMAGE}]}},
            },
            "workerGroupSpecs": [
                {
                    "groupName": "tpu-workers",
                    "replicas": 2,
                    "minReplicas": 2,
                    "maxReplicas": 2,
                    "rayStartParams": {},
                    "template": {"spec": {"nodeSelector": selector, "containers": [worker]}},
                    **(group or {}),
                }
            ],
        },
    }
