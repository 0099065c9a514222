"""Pods from their description alone: what they see, how they start, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.kubelet import HOST
from rehearsal.kubelet.alone import IMAGE, PATIENCE_SECONDS, Heard, body, run, running, said, until
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.pods import Pod

Object = dict[str, Any]


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


def test_a_pod_knows_its_own_hostname(desk: Desk, heard: Heard) -> None:
    pod = body("named", "sh", "-c", "hostname; getent hosts host-0")
    pod["spec"]["hostname"] = "host-0"
    lines = said(run(desk, pod)).splitlines()
    assert lines[0] == "host-0"
    assert lines[1].split() == [heard.statuses[-1]["podIP"], "host-0"]


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
