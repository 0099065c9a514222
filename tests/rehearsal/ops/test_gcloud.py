"""The real gcloud and `ops` see the same cloud, through the same variables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rehearsal.ops.life import Life, simulated

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
CLUSTER = ("--cluster", "tpu-training", "--location", "us-central1")


def gcloud(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CLOUDSDK_CONFIG": str(folder / "gcloud")}
    return subprocess.run(
        ["gcloud", *words, "--format", "json"], env=environment, capture_output=True, text=True
    )


def listed(folder: Path, *words: str) -> list[dict[str, object]]:
    done = gcloud(folder, *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_gcloud_lists_the_pools_that_ops_made(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        names = set(life.provision().pools)
        pools = listed(tmp_path, "container", "node-pools", "list", *CLUSTER)
        assert {pool["name"] for pool in pools} == names
        (pool,) = pools
        assert pool["status"] == "RUNNING"
        assert pool["config"]["resourceLabels"]["managed-by"] == "ray-tpu-template"  # type: ignore[index]
        (cluster,) = listed(tmp_path, "container", "clusters", "list")
        assert cluster["name"] == "tpu-training"


def test_gcloud_is_refused_what_gke_refuses(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        life.provision()
        create = ("container", "node-pools", "create", "by-hand", *CLUSTER, "--async")
        machine = ("--machine-type", "ct5lp-hightpu-4t", "--num-nodes", "1")
        zone = ("--node-locations", "us-central1-b")
        done = gcloud(tmp_path, *create, *machine, *zone, "--tpu-topology", "2x2")
        assert done.returncode == 1
        assert "topology can't be specified with single-host" in done.stderr
        assert gcloud(tmp_path, *create, *machine, *zone, "--spot").returncode == 0
        name = "tpu-training-t0-s0"
        done = gcloud(tmp_path, "container", "node-pools", "delete", name, *CLUSTER, "--quiet")
        assert "incompatible operation" in done.stderr
        life.cloud.clock.sleep(300)
        assert_by_hand_stays(life)


def assert_by_hand_stays(life: Life) -> None:
    """What a person made without our labels outlives teardown and sweep."""
    life.teardown()
    life.cloud.clock.sleep(90_000)
    assert life.sweep().failure() is None
    names = [pool.asked.name for _, pool in life.cloud.gke.all_pools()]
    assert names == ["by-hand"]
