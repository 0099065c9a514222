"""`ops dashboard` finds the run's Ray cluster and connects again when the connection is lost."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from rehearsal.ops.life import simulated
from rehearsal.ops.test_command import PATIENCE_SECONDS, Shell

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
"""


def stand_ins(folder: Path, log: Path) -> Path:
    """kubectl and gcloud that write down how they were called, and end at once."""
    folder.mkdir()
    for name in ("kubectl", "gcloud", "gke-gcloud-auth-plugin"):
        (folder / name).write_text(STAND_IN.format(log=log))
        (folder / name).chmod(0o755)
    return folder


def test_the_connection_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls"
    folder = stand_ins(tmp_path / "bin", log)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    with simulated(tmp_path / "bucket") as life:
        life.provision()
        life.submit()
        life.cloud.clock.sleep(60)
        (cluster,) = life.desk().kube(life.desk().place).objects("rayclusters", "")
        process = Shell(life, tmp_path).begin("dashboard", "--port", "9265")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not log.exists() or log.read_text().count("port-forward") < 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert "Traceback" not in err
    service = f"service/{cluster['metadata']['name']}-head-svc"
    assert f"kubectl port-forward {service} 9265:8265" in log.read_text()
    assert "clusters get-credentials tpu-training --location us-central1" in log.read_text()


def test_a_run_without_a_cluster_is_told(tmp_path: Path) -> None:
    with simulated(tmp_path / "bucket") as life:
        told = Shell(life, tmp_path).run("dashboard", code=3)
    assert "what to do" in told
