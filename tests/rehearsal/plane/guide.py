"""The Ray cluster of the guide that this template grew from."""

from __future__ import annotations

from typing import Any

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
IMAGE = "rayproject/ray:2.40.0"


def cluster(name: str, topology: str = "", **group: Any) -> dict[str, Any]:
    """With a second selector where a topology is given; `group` changes the worker group."""
    tpu = {"google.com/tpu": "4"}
    selector = {ACCELERATOR: "tpu-v5-lite-podslice", **({TOPOLOGY: topology} if topology else {})}
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
                    **group,
                }
            ],
        },
    }
