"""Pods from their description alone, with nobody to bind them: processes, names, ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehearsal.kubelet import HOST, Image, Names, Network
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.pods import Pod

Object = dict[str, Any]
PATIENCE_SECONDS = 60.0
IMAGE = "python"


class Heard:
    """An API server that takes everything; what was sent is kept."""

    def __init__(self) -> None:
        self.statuses: list[Object] = []
        self.events: list[Object] = []
        self.removed: list[str] = []

    core = property(lambda self: self)

    def insist(self, call: Callable[..., Any], *words: Any, **options: Any) -> Any:
        return call(*words, **options)

    def patch_namespaced_pod_status(self, name: str, where: str, body: Object, **_: Any) -> Object:
        self.statuses.append(body["status"])
        return body

    def create_namespaced_event(self, where: str, body: Object) -> Object:
        self.events.append(body)
        return body

    def patch_namespaced_event(self, name: str, where: str, body: Object) -> Object:
        self.events.append(body)
        return body

    def delete_namespaced_pod(self, name: str, where: str, **_: Any) -> Object:
        self.removed.append(name)
        return {}

    def reasons(self, kind: str = "Warning") -> list[str]:
        return [event["reason"] for event in self.events if event["type"] == kind]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def desk(network: Network, heard: Heard) -> Desk:
    names = Names(network.folder / "hosts")
    devices = {"TPU_WORKER_ID": "0"}
    image = Image(Path(sys.prefix), variables={"FROM_IMAGE": "yes"})
    return Desk(heard, network, names, {IMAGE: image}, lambda pod: devices)  # type: ignore[arg-type]


def body(name: str, *command: str, policy: str = "Never", **more: Any) -> Object:
    container = {"name": "main", "image": IMAGE, "command": list(command), **more}
    spec = {"nodeName": "here", "restartPolicy": policy, "containers": [container]}
    named = {"name": name, "namespace": "default", "uid": name, "labels": {"kind": "test"}}
    return {"metadata": named, "spec": spec, "status": {}}


def run(desk: Desk, body: Object) -> Pod:
    """To its end."""
    pod = Pod(desk, body)
    pod.start()
    assert pod.over.wait(PATIENCE_SECONDS)
    return pod


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def said(pod: Pod, run: int = -1) -> str:
    runner = pod.runner("")
    assert runner is not None
    return b"".join(runner.logs[run].lines()).decode()


def running(pod: Pod) -> bool:
    runner = pod.runner("")
    return bool(runner and "running" in runner.state)


def test_a_pod_ends_with_its_exit_code(desk: Desk, heard: Heard) -> None:
    pod = run(desk, body("three", "bash", "-c", "echo one; echo two >&2; exit 3"))
    assert said(pod) == "one\ntwo\n"
    until(lambda: heard.statuses[-1]["phase"] == "Failed")
    (told,) = heard.statuses[-1]["containerStatuses"]
    assert told["state"]["terminated"]["exitCode"] == 3
    assert told["state"]["terminated"]["reason"] == "Error"


def test_what_a_container_sees(desk: Desk, heard: Heard) -> None:
    field = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    label = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['kind']"}}}
    pod = body("seeing", "sh", "-c", "echo $(ADDRESS) $(KIND) '$$(KIND)' $FROM_IMAGE; id -u; pwd")
    (container,) = pod["spec"]["containers"]
    container["env"] = [
        {"name": "IP", **field},
        {"name": "KIND", **label},
        {"name": "ADDRESS", "value": "$(IP):1"},
    ]
    container["command"][2] += "; hostname; touch /usr/x /tmp/x; ls /tmp/x; getent hosts seeing"
    container["securityContext"] = {"runAsUser": 1234}
    lines = said(run(desk, pod)).splitlines()
    ip = heard.statuses[-1]["podIP"]
    assert lines[0] == f"{ip}:1 test $(KIND) yes"
    assert lines[1:4] == ["1234", "/", "seeing"]
    assert "Read-only" in lines[4] and lines[5].endswith("/x")
    assert lines[6].split() == [ip, "seeing"]


def test_a_container_that_asks_for_chips_finds_them(desk: Desk) -> None:
    command = "import glob, os; print(len(glob.glob('/dev/accel*')), os.environ['TPU_WORKER_ID'])"
    tpu = {"limits": {"google.com/tpu": "4"}}
    assert said(run(desk, body("chips", "python", "-c", command, resources=tpu))) == "4 0\n"


def test_failing_containers_start_again(desk: Desk, heard: Heard) -> None:
    again = body("again", "sh", "-c", "echo x >> /data/runs; test $(wc -l < /data/runs) = 3")
    again["spec"]["restartPolicy"] = "OnFailure"
    again["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    mount = {"name": "data", "mountPath": "/data"}
    again["spec"]["containers"][0]["volumeMounts"] = [mount]
    run(desk, again)
    until(lambda: heard.statuses[-1]["phase"] == "Succeeded")
    assert heard.statuses[-1]["containerStatuses"][0]["restartCount"] == 2
    assert "BackOff" in heard.reasons()


def test_init_containers_come_first_and_may_fail(desk: Desk, heard: Heard) -> None:
    pod = body("first", "echo", "never")
    first = {"name": "first", "image": IMAGE, "command": ["sh", "-c", "exit 5"]}
    pod["spec"]["initContainers"] = [first]
    run(desk, pod)
    until(lambda: heard.statuses[-1]["phase"] == "Failed")
    assert heard.statuses[-1]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert "waiting" in heard.statuses[-1]["containerStatuses"][0]["state"]


TRAP = "trap 'cat /tmp/hook; echo term; exit 7' TERM; echo up; while true; do sleep 0.1; done"


def test_a_deleted_pod_has_its_hook_and_its_signal(desk: Desk, heard: Heard) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /tmp/hook"]}}}
    pod = Pod(desk, body("polite", "bash", "-c", TRAP, policy="Always", lifecycle=hook))
    pod.start()
    until(lambda: running(pod) and "up" in said(pod))
    pod.delete(20)
    assert pod.over.wait(PATIENCE_SECONDS)
    assert said(pod) == "up\nhook\nterm\n"
    until(lambda: heard.removed == ["polite"])
    assert heard.statuses[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


def test_a_pod_that_does_not_listen_is_killed(desk: Desk, heard: Heard) -> None:
    pod = Pod(desk, body("deaf", "bash", "-c", "trap '' TERM; echo up; sleep 600"))
    pod.start()
    until(lambda: running(pod) and "up" in said(pod))
    pod.delete(1)
    assert pod.over.wait(PATIENCE_SECONDS)
    until(lambda: heard.removed == ["deaf"])
    assert heard.statuses[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_node_s_notice_fails_the_pod_and_keeps_it(desk: Desk, heard: Heard) -> None:
    pod = Pod(desk, body("noticed", "bash", "-c", TRAP))
    pod.start()
    until(lambda: running(pod) and "up" in said(pod))
    pod.shut_down(20)
    assert pod.over.wait(PATIENCE_SECONDS)
    until(lambda: heard.statuses[-1].get("reason") == "Terminated")
    assert heard.statuses[-1]["phase"] == "Failed" and not heard.removed


def test_a_crash_is_told_to_nobody(desk: Desk, heard: Heard) -> None:
    pod = Pod(desk, body("crashed", "bash", "-c", TRAP))
    pod.start()
    until(lambda: running(pod) and "up" in said(pod))
    until(lambda: heard.statuses[-1]["phase"] == "Running")
    pod.crash()
    assert pod.over.wait(PATIENCE_SECONDS)
    assert "term" not in said(pod)
    assert heard.statuses[-1]["phase"] == "Running" and not heard.removed


def test_an_image_that_is_not_there(desk: Desk, heard: Heard) -> None:
    wanting = body("imageless", "true")
    wanting["spec"]["containers"][0]["image"] = "later"
    pod = Pod(desk, wanting)
    pod.start()
    until(lambda: "ImagePullBackOff" in str(heard.statuses[-1:]))
    assert heard.reasons().count("Failed") >= 3
    assert heard.statuses[-1]["phase"] == "Pending"
    desk.images["later"] = desk.images[IMAGE]
    assert pod.over.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("command", "seen"),
    [("nosuch", "executable file not found"), ("/etc/passwd", "executable file not found")],
)
def test_a_command_that_cannot_start(desk: Desk, heard: Heard, command: str, seen: str) -> None:
    run(desk, body("commandless", command))
    until(lambda: heard.statuses[-1]["phase"] == "Failed")
    ended = heard.statuses[-1]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 128 and ended["reason"] == "StartError"
    assert seen in ended["message"]


def test_what_is_not_known_is_said(desk: Desk, heard: Heard) -> None:
    hook = {"postStart": {"exec": {"command": ["true"]}}}
    pod = Pod(desk, body("unknown", "true", lifecycle=hook))
    pod.start()
    until(lambda: "CreateContainerConfigError" in str(heard.statuses[-1:]))
    pod.crash()
    assert pod.over.wait(PATIENCE_SECONDS)


def test_probes(desk: Desk, heard: Heard) -> None:
    """Ready once its server answers; ended when a file appears."""
    probes = {
        "readinessProbe": {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 1},
        "livenessProbe": {
            "exec": {"command": ["sh", "-c", "! test -e /tmp/sick"]},
            "periodSeconds": 1,
            "failureThreshold": 2,
        },
        "startupProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 60},
        "ports": [{"name": "web", "containerPort": 8000}],
    }
    command = "cd /tmp; (sleep 4; touch sick) & exec python -m http.server"
    pod = Pod(desk, body("probed", "bash", "-c", command, policy="Always", **probes))
    pod.body["spec"]["terminationGracePeriodSeconds"] = 1
    pod.start()
    until(lambda: heard.statuses[-1:] != [] and _condition(heard.statuses[-1], "Ready") == "True")
    until(lambda: heard.statuses[-1]["containerStatuses"][0]["restartCount"] == 1)
    assert {"Unhealthy"} <= set(heard.reasons()) and "Killing" in heard.reasons("Normal")
    pod.crash()
    assert pod.over.wait(PATIENCE_SECONDS)


def _condition(status: Object, kind: str) -> str:
    return next(str(one["status"]) for one in status["conditions"] if one["type"] == kind)


def test_pods_reach_each_other_and_this_machine_by_name(desk: Desk) -> None:
    server = Pod(desk, body("server", "python", "-m", "http.server"))
    server.start()
    until(lambda: running(server))
    ask = "import socket, sys; socket.create_connection((sys.argv[1], 8000), 30); print('reached')"
    again = f'until python -c "{ask}" server; do sleep 0.2; done; getent hosts host.rehearsal'
    lines = said(run(desk, body("asking", "bash", "-c", again))).splitlines()
    assert "reached" in lines and lines[-1].split()[0] == HOST
    server.crash()
    assert server.over.wait(PATIENCE_SECONDS)


def test_probes_find_wget_on_any_machine(desk: Desk) -> None:
    """KubeRay's own words, with the program for slim machines."""
    command = (
        "cd /tmp; echo success > x; python -m http.server & sleep 2; "
        "/opt/rehearsal/bin/wget --tries 1 -T 2 -q -O- http://localhost:8000/x | grep success"
    )
    assert "success" in said(run(desk, body("wget", "bash", "-c", command)))
