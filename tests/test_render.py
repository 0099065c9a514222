"""The files of k8s/ that a project is made with are what its own `ops render` writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from baking import Oven
from test_bake import pairs

CAPACITIES = (
    "spot",
    "flex-start",
    "spot, flex-start",
    "reservation:yes, spot",
    "on-demand, reservation:spot",
    "reservation:projects/team-a/reservations/r-1",
)
# Names that YAML would take for something else than text.
NAMES = ("on", "null", "true", "e1", "tpu-training")


def ops(project: Path, package: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The project's own command, from its own folder."""
    environment = {**os.environ, "PYTHONPATH": str(project / "src"), "COLUMNS": "200"}
    command = [sys.executable, "-B", "-m", f"{package}.ops.cli", *words]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def check(project: Path, package: str = "tpu_training") -> None:
    done = ops(project, package, "render", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_pair_of_choices(oven: Oven, tmp_path: Path) -> None:
    for number, answers in enumerate(pairs(oven)):
        check(oven.bake(tmp_path, project=f"pair-{number}", package="p", **answers), "p")


@pytest.mark.parametrize("cluster_mode", ["standard", "autopilot"])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_every_order_of_capacity(
    oven: Oven, tmp_path: Path, capacity: str, cluster_mode: str
) -> None:
    check(oven.bake(tmp_path, capacity=capacity, cluster_mode=cluster_mode, zones="b, a"))


@pytest.mark.parametrize("name", NAMES)
def test_every_name(oven: Oven, tmp_path: Path, name: str) -> None:
    project = oven.bake(tmp_path, project=name, package="p", slices="2", topology="4x4")
    check(project, "p")
    job = read(project, "rayjob.yaml")
    assert job["metadata"]["name"] == job["metadata"]["labels"]["run"] == name


def test_a_changed_setting_shows_and_the_named_command_mends_it(oven: Oven, tmp_path: Path) -> None:
    project = oven.bake(tmp_path)
    settings = project / "run.toml"
    settings.write_text(settings.read_text("utf-8").replace('"2x2"', '"2x4"'), "utf-8")
    text = settings.read_text("utf-8").replace("batch_size = 16", "batch_size = 32")
    settings.write_text(text, "utf-8")
    done = ops(project, "tpu_training", "render", "--check")
    assert done.returncode == 2
    assert "+          cloud.google.com/gke-tpu-topology: 2x4" in done.stdout
    assert "run `ops render`" in done.stderr
    assert ops(project, "tpu_training", "render").returncode == 0
    check(project)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")
def test_kubectl_builds_what_it_would_apply(oven: Oven, tmp_path: Path) -> None:
    project = oven.bake(tmp_path, cluster_mode="autopilot")
    done = oven.run("kubectl", "kustomize", project / "k8s")
    assert done.returncode == 0, done.stderr
    built = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert set(built) == {"NetworkPolicy", "PodMonitoring", "RayJob", "ServiceAccount"}
    assert {each["metadata"]["namespace"] for each in built.values()} == {"default"}
    cluster = built["RayJob"]["spec"]["rayClusterSpec"]
    image = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert image.endswith("/tpu-training/train:latest")


def read(project: Path, name: str) -> Any:
    return yaml.safe_load((project / "k8s" / name).read_text("utf-8"))
