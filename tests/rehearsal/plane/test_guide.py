"""What the guide shows is refused here, or waits for ever; each fault alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.ops.life import part
from rehearsal.plane import Plane, guide
from rehearsal.plane.conftest import Programs
from rehearsal.plane.objects import SILENT, add_nodes, until

NOT_EQUAL = "Number of workers in worker group not equal to specified topology"


@pytest.fixture(scope="module")
def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    folder = tmp_path_factory.mktemp("plane")
    parts = programs("kubernetes"), programs("operator-newest")
    with Plane(folder / "plane", *parts, grace_seconds=SILENT) as started:
        yield started


def refused(plane: Plane, manifest: dict[str, Any]) -> str:
    done = plane.kubectl("create", "--filename=-", given=manifest)
    assert done.returncode == 1, done.stdout
    return done.stderr


def told(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """What `ops render --check` says of it, without a cluster."""
    (folder / "guide.yaml").write_text(yaml.safe_dump(manifest))
    settings = part("settings").load(Path(os.environ["PROJECT"]) / "run.toml", [])
    found: list[str] = part("ops.misfits").misfits(folder, settings)
    return found


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        pytest.param(guide.cluster("whole"), "Failed to validate RayCluster", id="one selector"),
        pytest.param(guide.cluster("hosts", "4x4"), NOT_EQUAL, id="no numOfHosts"),
        pytest.param(
            guide.cluster("none", "4x4", numOfHosts=0),
            "Failed to validate RayCluster",
            id="numOfHosts 0",
        ),
        pytest.param(
            guide.cluster("many", "2x2", numOfHosts=2),
            NOT_EQUAL,
            id="more hosts than the topology has",
        ),
    ],
)
def test_the_webhook_refuses(
    cluster: Plane, tmp_path: Path, manifest: dict[str, Any], why: str
) -> None:
    assert why in refused(cluster, manifest)
    assert cluster.objects("rayclusters.ray.io") == []
    assert any("the TPU webhook refuses" in line for line in told(tmp_path, manifest))


def test_two_replicas_on_the_one_node_of_the_pool_wait_for_ever(
    cluster: Plane, tmp_path: Path
) -> None:
    labels = {
        "cloud.google.com/gke-nodepool": "guide",
        guide.ACCELERATOR: "tpu-v5-lite-podslice",
        guide.TOPOLOGY: "2x2",
    }
    add_nodes(cluster, "guide", 1, labels, chips=4)
    add_nodes(cluster, "cpu", 1, {})
    manifest = guide.cluster("two", "2x2")
    assert any("replicas is 2 and counts slices" in line for line in told(tmp_path, manifest))
    assert cluster.kubectl("create", "--filename=-", given=manifest).returncode == 0

    def said() -> str:
        events = cluster.objects("events", "--field-selector=reason=FailedScheduling")
        return next((one["message"] for one in events if "Insufficient" in one["message"]), "")

    assert "1 Insufficient google.com/tpu" in until(said, "no pod was refused a node")


def test_without_the_webhook_nothing_tells_a_worker_its_place(
    programs: Programs, tmp_path: Path
) -> None:
    """The guide installs KubeRay alone."""
    with Plane(tmp_path / "p", programs("kubernetes"), programs("operator-newest")) as alone:
        for kind in ("mutating", "validating"):
            alone.kubectl("delete", f"{kind}webhookconfigurations", "--all")
        manifest = guide.cluster("alone")
        assert alone.kubectl("create", "--filename=-", given=manifest).returncode == 0
        pods = until(lambda: alone.objects("pods", "--selector=ray.io/node-type=worker"), "no pod")
        (container,) = pods[0]["spec"]["containers"]
        names = {one["name"] for one in container["env"]}
        assert "RAY_ADDRESS" in names
        assert not [name for name in names if name.startswith("TPU_")]
