"""RayJob and RayCluster against KubeRay's own definitions, for every kind of slice."""

from __future__ import annotations

import copy
import os
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.crds import validator
from rehearsal.ops.life import part

Object = dict[str, Any]
SHAPES = [
    ("v5e", "2x2", 1),
    ("v5e", "2x4", 1),
    ("v6e", "4x4", 1),
    ("v6e", "4x4", 3),
    ("v5p", "2x2x1", 1),
    ("v5p", "16x16x16", 1),
    ("v4", "2x2x2", 2),
    ("7x", "2x2x1", 1),
    ("7x", "4x4x8", 2),
]


@pytest.fixture(scope="session")
def checks() -> dict[str, Any]:
    return {name: validator(f"{name}s") for name in ("rayjob", "raycluster")}


def made(generation: str, topology: str, slices: int, mode: str) -> dict[str, Object]:
    settings = {
        "hardware.generation": generation,
        "hardware.topology": topology,
        "hardware.slices": slices,
        "train.batch_size": 110592,
        "cloud.cluster_mode": mode,
        "cloud.capacity": '["spot", "flex-start"]',
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    config = part("settings").load(Path(os.environ["PROJECT"]) / "run.toml", words)
    prices = part("ops.cost").Prices(date.today(), {})
    files: dict[str, Object] = part("ops.manifests").manifests(config, prices)
    return files


@pytest.mark.parametrize(("generation", "topology", "slices"), SHAPES)
def test_kuberay_takes_every_slice(
    checks: dict[str, Any], generation: str, topology: str, slices: int
) -> None:
    for mode, (name, check) in product(("standard", "autopilot"), checks.items()):
        check.validate(made(generation, topology, slices, mode)[f"{name}.yaml"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "activeDeadlinSeconds"), 1),
        (("spec", "activeDeadlineSeconds"), "soon"),
        (("spec", "rayClusterSpec", "workerGroupSpecs"), [{"groupName": "tpu"}]),
        (("spec", "submitterPodTemplate", "spec", "serviceAcount"), "trainer"),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers"), [{}]),
    ],
)
def test_what_kuberay_would_refuse_is_seen(
    checks: dict[str, Any], path: tuple[str, ...], value: Any
) -> None:
    job = copy.deepcopy(made("v5e", "2x2", 1, "standard")["rayjob.yaml"])
    place = job
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert list(checks["rayjob"].iter_errors(job))
