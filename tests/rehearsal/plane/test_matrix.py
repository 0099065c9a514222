"""What `ops render` writes for every slice, before the real API server and the real operator."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rehearsal.plane import Plane
from rehearsal.plane.objects import (
    PROJECT,
    TPU,
    Case,
    add_nodes,
    matrix,
    pods_by_run,
    several,
    until,
    variables,
    warnings,
)

STRICT = ("--validate=strict", "--filename=-")
DEFINED_BY_GKE = ("PodMonitoring", "Kustomization")
Pods = dict[Case, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def taken(plane: Plane) -> dict[Case, dict[str, Any]]:
    """Every job of the matrix, at work in the plane."""
    cases = {case: case.files() for case in matrix()}
    one = next(iter(cases.values()))
    assert plane.kubectl("create", *STRICT, given=one["serviceaccount.yaml"]).returncode == 0
    jobs = [files["rayjob.yaml"] for files in cases.values()]
    done = plane.kubectl("create", *STRICT, given=several(jobs))
    assert (done.returncode, done.stderr) == (0, "")
    return cases


@pytest.fixture(scope="module")
def pods(plane: Plane, taken: dict[Case, dict[str, Any]]) -> Pods:
    """Of each job, once all are made."""
    wanted = {case: 1 + case.slices * case.hosts for case in taken}

    def complete() -> Pods | None:
        found = pods_by_run(plane)
        made = {case: found.get(case.run, []) for case in taken}
        return made if {case: len(some) for case, some in made.items()} == wanted else None

    made: Pods = until(complete, "not every pod was made")
    return made


def test_the_api_server_takes_every_other_manifest(
    plane: Plane, taken: dict[Case, dict[str, Any]]
) -> None:
    others = [
        manifest | {"metadata": {**manifest["metadata"], "name": f"other-{number}"}}
        for number, files in enumerate(taken.values())
        for name, manifest in files.items()
        if name != "rayjob.yaml" and manifest["kind"] not in DEFINED_BY_GKE
    ]
    done = plane.kubectl("create", "--dry-run=server", *STRICT, given=several(others))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("created (server dry run)") == len(others) == 3 * len(taken)


def test_the_operator_makes_all_of_every_job(plane: Plane, pods: Pods) -> None:
    services = Counter(
        service["metadata"]["ownerReferences"][0]["name"]
        for service in plane.objects("services")
        if "ownerReferences" in service["metadata"]
    )
    clusters = plane.objects("rayclusters.ray.io")
    assert len(clusters) == len(pods)
    for cluster in clusters:
        (group,) = cluster["spec"]["workerGroupSpecs"]
        # The head's, and for several hosts the headless one.
        assert services[cluster["metadata"]["name"]] == 1 + (group["numOfHosts"] > 1)
    assert warnings(plane, "RayJob", "RayCluster", "Service") == []


def test_every_host_knows_its_place(plane: Plane, pods: Pods) -> None:
    names = {service["metadata"]["name"] for service in plane.objects("services")}
    for case, some in pods.items():
        workers = [pod for pod in some if chips(pod)]
        told = [variables(pod) for pod in workers]
        places = Counter((one["TPU_NAME"], one["TPU_WORKER_ID"]) for one in told)
        assert places == Counter(
            (f"tpu-{replica}", str(host))
            for replica in range(case.slices)
            for host in range(case.hosts)
        ), case
        for pod, one in zip(workers, told, strict=True):
            known = one.get("TPU_WORKER_HOSTNAMES", "").split(",")
            assert len(known) == case.hosts, case
            if case.hosts > 1:
                assert pod["spec"]["subdomain"] in names
                own = f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}"
                assert known[int(one["TPU_WORKER_ID"])] == own


@pytest.mark.usefixtures("pods")
def test_each_slice_gets_a_pool_of_its_own(plane: Plane) -> None:
    case = Case("v6e", "4x4", 2)
    add_nodes(plane, "cpu", 2, {})
    for pool in ("t0-s0", "t0-s1"):
        labels = {
            "cloud.google.com/gke-nodepool": pool,
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
            "project": PROJECT,
            "run": case.run,
        }
        add_nodes(plane, pool, 4, labels, chips=4)
    bound: list[dict[str, Any]] = until(lambda: placed(plane, case), "the slices have no nodes")
    nodes = {variables(pod)["TPU_NAME"]: set[str]() for pod in bound}
    for pod in bound:
        nodes[variables(pod)["TPU_NAME"]].add(pod["spec"]["nodeName"])
    pools = [{name.rpartition("-")[0] for name in names} for names in nodes.values()]
    assert [len(names) for names in nodes.values()] == [4, 4]
    assert sorted(map(sorted, pools)) == [["t0-s0"], ["t0-s1"]]


def placed(plane: Plane, case: Case) -> list[dict[str, Any]]:
    """The workers, once all have a node."""
    workers = [pod for pod in pods_by_run(plane)[case.run] if chips(pod)]
    return workers if all(pod["spec"].get("nodeName") for pod in workers) else []


def chips(pod: dict[str, Any]) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"].get(TPU, 0))
