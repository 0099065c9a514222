"""Pods of a real control plane: bound by its scheduler, run here, seen through its API."""

from __future__ import annotations

import pytest
from kubernetes import client

from rehearsal.kubelet.asking import TRAP, Cluster


def test_exit_code_and_log(cluster: Cluster) -> None:
    name = cluster.create("three", "bash", "-c", "echo one; echo two >&2; exit 3")
    status = cluster.until_phase(name, "Failed")
    (told,) = status["containerStatuses"]
    assert told["state"]["terminated"]["exitCode"] == 3
    assert cluster.log(name) == "one\ntwo\n"
    assert cluster.log(name, tail_lines=1) == "two\n"
    stamped = cluster.log(name, timestamps=True, since_seconds=600).splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == ["one", "two"]
    assert cluster.world.plane.kubectl("logs", name).stdout == "one\ntwo\n"


def test_a_log_is_followed_to_its_end(cluster: Cluster) -> None:
    name = cluster.create("slow", "bash", "-c", "for i in 1 2 3; do echo $i; sleep 1; done")
    cluster.until(lambda: cluster.status(name)["phase"] != "Pending")
    assert cluster.world.plane.kubectl("logs", "--follow", name).stdout == "1\n2\n3\n"


def test_restarts_are_counted_and_the_last_log_is_kept(cluster: Cluster) -> None:
    command = "echo x >> /data/runs; wc -l < /data/runs; test $(wc -l < /data/runs) = 2"
    volume = {"name": "data", "emptyDir": {}}
    mount = {"name": "data", "mountPath": "/data"}
    spec = {"restartPolicy": "OnFailure", "volumes": [volume]}
    container = {"volumeMounts": [mount]}
    name = cluster.create("again", "sh", "-c", command, **spec, container=container)
    status = cluster.until_phase(name, "Succeeded")
    assert status["containerStatuses"][0]["restartCount"] == 1
    assert cluster.log(name, previous=True) == "1\n" and cluster.log(name) == "2\n"


def test_deletion_runs_the_hook_and_leaves_nothing(cluster: Cluster) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /tmp/hook; sleep 1"]}}}
    name = cluster.create("polite", "bash", "-c", TRAP, container={"lifecycle": hook})
    cluster.until_phase(name, "Running")
    cluster.until(lambda: cluster.log(name) == "up\n")
    pod = cluster.world.kubelet.find("default", name)
    cluster.core.delete_namespaced_pod(name, "default")
    cluster.until(lambda: cluster.gone(name))
    runner = pod.runner("") if pod else None
    assert runner and b"".join(runner.logs[-1].lines()) == b"up\nhook\nterm\n"
    assert runner.code == 7


def test_the_grace_period_ends_who_does_not_listen(cluster: Cluster) -> None:
    command = "trap '' TERM; echo up; while true; do sleep 1; done"
    name = cluster.create("deaf", "bash", "-c", command, terminationGracePeriodSeconds=1)
    cluster.until_phase(name, "Running")
    cluster.until(lambda: cluster.log(name) == "up\n")
    pod = cluster.world.kubelet.find("default", name)
    cluster.core.delete_namespaced_pod(name, "default")
    cluster.until(lambda: cluster.gone(name))
    runner = pod.runner("") if pod else None
    assert runner and runner.code == 137


def test_an_image_that_cannot_be_pulled(cluster: Cluster) -> None:
    name = cluster.create("imageless", "true", container={"image": "nosuch@sha256:00"})
    cluster.until(lambda: "ImagePullBackOff" in str(cluster.status(name)))
    assert cluster.status(name)["phase"] == "Pending"
    cluster.until(lambda: "Error: ErrImagePull" in [text for _, text in cluster.warnings(name)])
    with pytest.raises(client.ApiException, match="is waiting to start"):
        cluster.log(name)
    cluster.core.delete_namespaced_pod(name, "default")
    cluster.until(lambda: cluster.gone(name))


def test_a_failing_probe_is_told_and_ends_the_run(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["sh", "-c", "echo ill; exit 1"]}, "periodSeconds": 1}
    container = {"livenessProbe": {**probe, "failureThreshold": 2}}
    name = cluster.create("ill", "bash", "-c", TRAP, container=container)
    status = cluster.until_phase(name, "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert ("Unhealthy", "Liveness probe failed: ill") in cluster.warnings(name)


def test_pods_meet_by_a_service_s_name(cluster: Cluster) -> None:
    """A headless service, as KubeRay makes it for the head and for the hosts of a slice."""
    spec = {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 8000}]}
    service = {"metadata": {"name": "web"}, "spec": spec}
    cluster.core.create_namespaced_service("default", service)
    own = {"hostname": "host-0", "subdomain": "web"}
    cluster.create("server", "python", "-m", "http.server", labels={"app": "web"}, **own)
    names = ("web", "web.default.svc.cluster.local", "host-0.web.default.svc.cluster.local")
    ask = "import socket, sys; socket.create_connection((sys.argv[1], 8000), 5)"
    command = "; ".join(f'until python -c "{ask}" {name}; do sleep 1; done' for name in names)
    name = cluster.create("asking", "bash", "-c", f"({command}) 2>/dev/null; echo met")
    cluster.until_phase(name, "Succeeded")
    assert cluster.log(name) == "met\n"
