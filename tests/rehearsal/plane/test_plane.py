"""The plane itself: it refuses what is wrong, its parts fail and come back, and nothing is left."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.plane import Plane
from rehearsal.plane.components import TESTS
from rehearsal.plane.conftest import Programs
from rehearsal.plane.objects import (
    SERVERS_OWN,
    SILENT,
    Case,
    pods_by_run,
    until,
    variables,
    warnings,
)

HOSTS = "10.9.8.7 demo-head-svc.default.svc.cluster.local\n"


@pytest.fixture(scope="module")
def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With the numbering of hosts off, as older operators have it."""
    folder = tmp_path_factory.mktemp("plane")
    (folder / "hosts").write_text(HOSTS)
    with Plane(
        folder / "plane",
        programs("kubernetes"),
        programs("operator-oldest"),
        hosts=folder / "hosts",
        gates="RayMultiHostIndexing=false",
        tokens={"known": ("somebody", "system:authenticated")},
        grace_seconds=SILENT,
    ) as started:
        create(started, Case("v5e", "2x2", 1).files()["serviceaccount.yaml"])
        yield started


def job(topology: str = "4x4", slices: int = 1, mode: str = "standard") -> tuple[str, Any]:
    case = Case("v5e", topology, slices, mode)
    return case.run, case.files()["rayjob.yaml"]


def create(plane: Plane, manifest: Any) -> None:
    done = plane.kubectl("create", "--validate=strict", "--filename=-", given=manifest)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("activeDeadlinSeconds", 1, 'unknown field "spec.activeDeadlinSeconds"'),
        ("activeDeadlineSeconds", "soon", "must be of type integer"),
        ("rayClusterSpec", {}, "spec.rayClusterSpec.headGroupSpec: Required value"),
    ],
)
def test_a_wrong_job_is_refused(cluster: Plane, key: str, value: object, why: str) -> None:
    _, manifest = job()
    manifest["spec"][key] = value
    done = cluster.kubectl("create", "--validate=strict", "--filename=-", given=manifest)
    assert done.returncode == 1
    assert why in done.stderr


def test_a_token_stands_for_its_user(cluster: Plane) -> None:
    assert asked(cluster, cluster.token) == 200
    assert asked(cluster, "known") == 403
    assert asked(cluster, "unknown") == 401
    del cluster.tokens["known"]
    until(lambda: asked(cluster, "known") == 401, "an expired token is still taken")


def asked(plane: Plane, token: str) -> int:
    trust = ssl.create_default_context(cafile=str(plane.authority.certificate))
    request = urllib.request.Request(
        f"{plane.url}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def test_the_operator_has_its_own_names(cluster: Plane) -> None:
    seen = Path(f"/proc/{cluster.pid('operator')}/root/etc/hosts").read_text()
    assert seen == HOSTS != Path("/etc/hosts").read_text()


def test_hosts_are_numbered_where_the_operator_does_not(cluster: Plane) -> None:
    run, manifest = job("4x8", slices=2)
    create(cluster, manifest)
    pods = until(lambda: whole(cluster, run, 1 + 2 * 8), "the pods were not made")
    told = [variables(pod) for pod in pods if "TPU_NAME" in variables(pod)]
    places = sorted((one["TPU_NAME"], int(one["TPU_WORKER_ID"])) for one in told)
    assert places == [(f"tpu-{replica}", host) for replica in (0, 1) for host in range(8)]


def whole(plane: Plane, run: str, count: int) -> Any:
    pods = pods_by_run(plane).get(run, [])
    return pods if len(pods) == count else None


def test_a_stopped_operator_goes_on(cluster: Plane) -> None:
    cluster.stop("operator")
    run, manifest = job(mode="autopilot")
    create(cluster, manifest)
    assert run not in pods_by_run(cluster)
    cluster.start("operator")
    until(lambda: whole(cluster, run, 1 + 4), "the operator did not go on")


def test_without_the_webhook_nothing_is_made_and_with_it_again_all(cluster: Plane) -> None:
    cluster.stop("webhook")
    run, manifest = job("2x2")
    create(cluster, manifest)
    said = until(lambda: about(cluster, run), "the operator says nothing")
    assert "kuberay-tpu-webhook" in said[0]
    assert run not in pods_by_run(cluster)
    cluster.start("webhook")
    until(lambda: whole(cluster, run, 1 + 1), "the operator did not try again")


def about(plane: Plane, run: str) -> list[str]:
    return [line for line in warnings(plane, "RayJob") if line.startswith(f"{run}:")]


def test_only_what_is_ours_counts_as_gone_wrong(cluster: Plane) -> None:
    for name in (SERVERS_OWN, "ours"):
        create(cluster, warning("Service", name))
    told = [line for line in warnings(cluster, "Service") if "not allocated" in line]
    assert told == ["ours: ClusterIPNotAllocated: not allocated; repairing"]


def warning(kind: str, name: str) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}-warning", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "default"},
        "type": "Warning",
        "reason": "ClusterIPNotAllocated",
        "message": "not allocated; repairing",
    }


def test_the_api_server_forgets_nothing(cluster: Plane) -> None:
    before = {one["metadata"]["uid"] for one in cluster.objects("services")}
    cluster.stop("apiserver")
    assert cluster.kubectl("get", "services").returncode == 1
    cluster.start("apiserver")
    assert {one["metadata"]["uid"] for one in cluster.objects("services")} == before


def test_a_killed_test_leaves_no_process(programs: Programs, tmp_path: Path) -> None:
    folders = (str(tmp_path / "p"), str(programs("kubernetes")), str(programs("operator-newest")))
    program = (
        "import sys; from pathlib import Path; from rehearsal.plane import Plane\n"
        "with Plane(*map(Path, sys.argv[1:])) as plane:\n"
        "    print(*(plane.pid(name) for name in plane.names), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *folders],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    ) as testing:
        assert testing.stdout is not None
        pids = [int(word) for word in testing.stdout.readline().split()]
        assert len(pids) == 6
        assert all(living(pid) for pid in pids)
        testing.send_signal(signal.SIGKILL)
    until(lambda: not any(living(pid) for pid in pids), "a process outlived its test")


def living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
