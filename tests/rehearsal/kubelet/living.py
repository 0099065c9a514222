"""A project at work on all of it: its `ops`, the simulated GKE, a real cluster, its own image."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from rehearsal.gcs import Emulator, emulator
from rehearsal.kubelet import HOST, Image
from rehearsal.kubelet.cloud import Cloud
from rehearsal.kubelet.images import WORK
from rehearsal.kubelet.pods import Pod
from rehearsal.kubelet.world import World
from rehearsal.ops.life import IMAGE, part
from rehearsal.ops.simulation.gke import Cluster
from rehearsal.ops.test_command import Shell

SMALL = {
    # A worker offers the 64 processors of a machine that is not there: as many processes would
    # read a larger text.
    "data.input": f"{WORK}/README.md",
    "cloud.deadline_hours": 2,
    "cloud.zones": '["us-central1-a"]',
    "train.steps": 12,
    "train.warmup_steps": 2,
    "checkpoint.every": 4,
}
RUN = "runs/tpu-training"
COMPLETE = re.compile(r"step-(\d+)-[0-9a-f]{8}/checkpoint\.json$")
PATIENCE_SECONDS, POLL_SECONDS = 240.0, 0.5
QUIET = {
    # Else an idle process for each of those 64 processors.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass
class Living:
    """`ops` is the command, as a person calls it."""

    world: World
    cloud: Cloud
    cluster: Cluster
    bucket: Emulator
    ops: Shell
    overrides: list[str]

    def objects(self, kind: str) -> list[str]:
        return [found["metadata"]["name"] for found in self.world.plane.objects(kind)]

    def pods(self, kind: str) -> list[Pod]:
        """Running pods of one kind: "head", "worker"; by name."""
        running = self.world.kubelet.running()
        labels = "ray.io/node-type"
        found = [pod for pod in running if pod.body["metadata"]["labels"].get(labels) == kind]
        return sorted(found, key=lambda pod: pod.key)

    def lose(self, pod: Pod) -> None:
        """It is gone at once, as one that was killed for its memory."""
        self.world.plane.kubectl("delete", "pod", pod.key[1], "--grace-period=0", "--force")

    def amend(self, **spec: object) -> None:
        """Another value in the job: a deadline that a test can wait for."""
        change = json.dumps({"spec": spec})
        name = RUN.rpartition("/")[2]
        self.world.plane.kubectl("patch", "rayjob", name, "--type=merge", "--patch", change)

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.told()
            time.sleep(POLL_SECONDS)

    def until_gone(self, *kinds: str) -> None:
        for kind in kinds:
            self.until(lambda kind=kind: not self.objects(kind))  # type: ignore[misc]

    def assert_nothing_left(self) -> None:
        """What stays is the cluster's own."""
        assert self.cloud.ours() == [] and sum(self.cloud.burning().values()) == 0
        self.until_gone("rayjobs", "rayclusters", "pods")
        self.until(lambda: self.objects("nodes") == ["gke-default-pool-0"])

    def give_back(self) -> None:
        self.ops.run("teardown")
        self.assert_nothing_left()

    def checkpoints(self, run: str = RUN) -> list[int]:
        """The steps of those that are complete."""
        names = self.bucket.names(f"{run}/checkpoints/")
        return sorted(int(found[1]) for name in names if (found := COMPLETE.search(name)))

    def losses(self) -> list[float]:
        """Of every step, as the run's metrics tell them."""
        lines = self.bucket.read(f"{RUN}/metrics.jsonl").decode().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["step"] for row in rows] == list(range(len(rows)))
        return [row["loss"] for row in rows]

    def watch(self, seconds: int) -> dict[str, Any]:
        """What `ops watch` says in the end."""
        process = self.ops.begin("watch", "--json", "--timeout", str(seconds / 60))
        out, err = process.communicate(timeout=seconds + 60)
        assert process.returncode == 0, err + self.told()
        found: dict[str, Any] = json.loads(out)
        return found

    def told(self) -> str:
        """What a failing test is understood by."""
        plane = self.world.plane
        parts = [
            plane.kubectl(*words.split()).stdout for words in ("get pods -o wide", "get events")
        ]
        for name in self.objects("pods"):
            parts.append(plane.kubectl("logs", "--tail=60", "--all-containers", name).stdout)
        return "\n".join(parts)


@contextmanager
def clouded(world: World) -> Iterator[tuple[Cloud, Cluster]]:
    """The cloud with the project's cluster in it; gcloud's variables point there."""
    plane, catalog = world.plane, part("slices")
    authority = plane.authority.certificate
    with (
        Cloud(catalog, world.kubelet, plane.url, authority, plane.tokens) as cloud,
        patch.dict(os.environ, cloud.env()),
    ):
        yield cloud, cloud.add_cluster("tpu-training", "us-central1")


def built(project: Path, bucket: Emulator) -> Image:
    """What the project's Dockerfile makes of it."""
    code = {"PYTHONPATH": f"{WORK}/src"}
    return Image(Path(sys.prefix), project, {**QUIET, **code, **bucket.environment})


@contextmanager
def living(world: World, folder: Path, **settings: object) -> Iterator[Living]:
    """`settings` like train_steps=12, beside those of a small run on the slice of run.toml."""
    project, plane = Path(os.environ["PROJECT"]).resolve(), world.plane
    plane.kubectl("apply", "--filename", str(project / "k8s" / "serviceaccount.yaml"))
    with (
        clouded(world) as (cloud, cluster),
        emulator(address=HOST) as bucket,
        patch.dict(os.environ, bucket.environment),
    ):
        world.kubelet.desk.images[IMAGE] = built(project, bucket)
        own = {key.replace("_", ".", 1): value for key, value in settings.items()}
        root = f"gs://{bucket.bucket}"
        places = {"run.storage": f"{root}/runs", "data.shards": f"{root}/data"}
        overrides = [f"{key}={value}" for key, value in {**SMALL, **places, **own}.items()]
        life: Any = SimpleNamespace(overrides=overrides, cloud=cloud)
        try:
            yield Living(world, cloud, cluster, bucket, Shell(life, folder), overrides)
        finally:
            # What a failed test leaves is not the next one's.
            plane.kubectl("delete", "rayjobs,rayclusters,jobs", "--all", "--timeout=60s")
            plane.kubectl("delete", "nodes", "--selector=cloud.google.com/gke-tpu-topology")
