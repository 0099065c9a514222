"""The RayJob against what GKE, KubeRay and Ray need."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from ops_fixtures import IMAGE, OWNER, settings

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.ops.cost import Prices
from << cookiecutter.package >>.ops.rayjob import rayjob
from << cookiecutter.package >>.ops.schedule import schedule
from << cookiecutter.package >>.slices import GENERATIONS, topologies

SLICES = [(kind, topology) for kind in GENERATIONS for topology in topologies(kind)]


def made(config: Config, *overrides: str) -> Any:
    return rayjob(config, IMAGE, schedule(config, Prices(date.today(), {})), OWNER, overrides)


def workers(job: Any) -> Any:
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return group


@pytest.mark.parametrize(("generation", "topology"), SLICES)
def test_every_slice_of_the_catalog(generation: str, topology: str) -> None:
    config = settings(generation, topology)
    one, group = config.hardware.slice, workers(made(config))
    assert group["numOfHosts"] == one.hosts
    pod = group["template"]["spec"]
    (container,) = pod["containers"]
    chips = {"google.com/tpu": str(one.chips_per_host)}
    assert container["resources"]["limits"] == chips
    assert container["resources"]["requests"].items() > chips.items()
    selector = pod["nodeSelector"]
    assert selector["cloud.google.com/gke-tpu-accelerator"] == one.accelerator_label
    assert selector["cloud.google.com/gke-tpu-topology"] == topology
    assert f'\\"TPU\\": {one.devices_per_host}' in group["rayStartParams"]["resources"]
    names = {variable["name"] for variable in container["env"]}
    assert ("RAY_TPU_RESOURCE_PER_CHIP" in names) == (generation == "7x")


def test_slices_are_replicas_and_nothing_grows() -> None:
    group = workers(made(settings("v5e", "4x4", slices=3)))
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 3


def test_it_ends_by_itself_whatever_happens() -> None:
    config = settings(deadline_hours="2")
    spec = made(config)["spec"]
    assert spec["activeDeadlineSeconds"] == 2 * 3600
    assert 0 < spec["preRunningDeadlineSeconds"] <= spec["activeDeadlineSeconds"]
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["submissionMode"] == "K8sJobMode"


def test_it_runs_on_its_own_run_s_nodes_only() -> None:
    selector = workers(made(settings()))["template"]["spec"]["nodeSelector"]
    assert selector["run"] == OWNER.run
    assert selector["project"] == OWNER.project


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("spot", "cloud.google.com/gke-spot"),
        ("flex-start", "cloud.google.com/gke-flex-start"),
        ("reservation:team-a", "cloud.google.com/reservation-name"),
    ],
)
def test_autopilot_is_asked_for_the_first_kind(kind: str, key: str) -> None:
    config = settings(capacity=f'["{kind}"]', cluster_mode="autopilot")
    selector = workers(made(config))["template"]["spec"]["nodeSelector"]
    assert key in selector
    assert "run" not in selector
    assert selector["topology.kubernetes.io/zone"] == "us-central1-a"


def test_tolerations_are_those_of_the_kinds_in_the_list() -> None:
    spec = workers(made(settings(capacity='["spot", "flex-start"]')))["template"]["spec"]
    keys = [toleration["key"] for toleration in spec["tolerations"]]
    assert keys == [
        "google.com/tpu",
        "cloud.google.com/gke-spot",
        "cloud.google.com/gke-queued",
    ]


def test_the_head_takes_no_work_and_no_chips() -> None:
    head = made(settings())["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert "nodeSelector" not in head["template"]["spec"]


def test_names_labels_and_the_command() -> None:
    job = made(settings(), "train.steps=7", "data.input=a b; rm -rf /")
    assert job["metadata"]["name"] == OWNER.run
    assert job["metadata"]["labels"] == OWNER.labels()
    assert workers(job)["template"]["metadata"]["labels"] == OWNER.labels()
    assert job["spec"]["entrypoint"] == (
        "train --set run.name=run-1 --set train.steps=7 --set 'data.input=a b; rm -rf /'"
    )
    assert workers(job)["template"]["spec"]["containers"][0]["image"] == IMAGE
