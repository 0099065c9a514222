"""How pods end that are asked to, that do not listen, and whose machine goes."""

from __future__ import annotations

from typing import Any

from rehearsal.kubelet.alone import PATIENCE_SECONDS, Heard, body, running, said, until
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.pods import Pod

Object = dict[str, Any]


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
