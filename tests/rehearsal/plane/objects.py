"""What the tests put into the plane: jobs of every slice, nodes, and how to wait."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any

from rehearsal.plane.plane import Plane
from rehearsal.running import PACKAGE
from rehearsal.running import PROJECT as WHERE

PATIENCE_SECONDS = 300
PROJECT = "rehearsal"
SERVERS_OWN = "kubernetes"
"""The Service that the API server makes for itself."""
SILENT = 3600
"""Seconds for which a plane may hear nothing of its nodes, where nothing runs on them."""
TPU = "google.com/tpu"
Object = dict[str, Any]


def part(name: str) -> Any:
    """A module of the generated project, like `part("ops.manifests")`."""
    return importlib.import_module(f"{PACKAGE}.{name}")


@dataclass(frozen=True)
class Case:
    generation: str
    topology: str
    slices: int
    mode: str = "standard"
    accelerator: str = "xla"

    @property
    def run(self) -> str:
        kind = f"{self.generation}-{self.topology}-{self.slices}"
        return f"r{kind}-{self.mode}-{self.accelerator}"

    @property
    def hosts(self) -> int:
        return int(part("slices").find(self.generation, self.topology).hosts)

    def files(self) -> dict[str, Object]:
        """What `ops render` writes."""
        settings = {
            "run.project": PROJECT,
            "run.name": self.run,
            "hardware.generation": self.generation,
            "hardware.topology": self.topology,
            "hardware.slices": self.slices,
            "train.batch_size": 110592,
            "cloud.cluster_mode": self.mode,
            "cloud.capacity": '["spot", "flex-start"]',
        }
        words = [f"{key}={value}" for key, value in settings.items()]
        config = part("settings").load(WHERE / "run.toml", words)
        # A project holds the files of one framework only; the manifests know both.
        object.__setattr__(config.hardware, "accelerator", self.accelerator)
        prices = part("ops.cost").Prices(date.today(), {})
        made: dict[str, Object] = part("ops.manifests").manifests(config, prices)
        return made


def matrix() -> Iterator[Case]:
    """One host, several, two slices: of every generation, kind of cluster and framework."""
    for name, kind in part("slices").GENERATIONS.items():
        shapes = [(kind.single_host[0], 1), (kind.multi_host[0], 1), (kind.multi_host[0], 2)]
        ways = product(shapes, ("standard", "autopilot"), ("xla", "tpu"))
        for (topology, slices), mode, accelerator in ways:
            yield Case(name, topology, slices, mode, accelerator)


def several(objects: list[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gave once it was true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.5)
    return found


def add_nodes(plane: Plane, name: str, count: int, labels: Object, chips: int = 0) -> None:
    """Ready nodes of one pool, tainted as GKE does where they have chips; nothing runs on them."""
    capacity = {TPU: str(chips)} if chips else {}
    taints = [{"key": TPU, "value": "present", "effect": "NoSchedule"}] if chips else []
    machine = {"cpu": "128", "memory": "512Gi", "pods": "110", **capacity}
    status = {
        "capacity": machine,
        "allocatable": machine,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
    }
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"{name}-{number}", "labels": labels},
            "spec": {"taints": taints},
            "status": status,
        }
        for number in range(count)
    ]
    done = plane.kubectl("create", "--filename=-", given=several(nodes))
    assert done.returncode == 0, done.stderr


def warnings(plane: Plane, *kinds: str) -> list[str]:
    """What went wrong with objects of these kinds, as their events say.

    The API server's own Service is left out: where two of its loops meet at its start, one warns
    that the address is not allocated, and allocates it.
    """
    return [
        f"{event['involvedObject']['name']}: {event['reason']}: {event['message']}"
        for event in plane.objects("events", "--field-selector=type=Warning")
        if event["involvedObject"]["kind"] in kinds
        and event["involvedObject"]["name"] != SERVERS_OWN
    ]


def pods_by_run(plane: Plane) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for pod in plane.objects("pods", f"--selector=project={PROJECT}"):
        found.setdefault(pod["metadata"]["labels"]["run"], []).append(pod)
    return found


def variables(pod: Object) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}
