"""The pods' network comes and goes as a whole, also when a rehearsal is killed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rehearsal.kubelet import Network
from rehearsal.kubelet.machine import BRIDGE, PREFIX

KILLED = """
import os, signal, sys
from pathlib import Path
from rehearsal.kubelet import Image, Names, Network
from rehearsal.kubelet.alone import Heard, body, running, until
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.pods import Pod
network = Network()
desk = Desk(Heard(), network, Names(network.folder / "hosts"), {"python": Image()}, lambda pod: {})
pod = Pod(desk, body("left", "sleep", "600"))
pod.start()
until(lambda: running(pod))
print("up", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_rehearsal_leaves_nothing() -> None:
    """Without the fixture: the next one only begins when the guard has cleaned."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True
    )
    if "CannotRehearse" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == -9 and done.stdout == "up\n", done.stderr
    with Network() as after:
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
        left = [line for line in links.splitlines() if PREFIX in line]
        assert len(left) == 1 and BRIDGE in left[0]
        assert list(after.folder.parent.glob(f"{PREFIX}-*")) == [after.folder]
