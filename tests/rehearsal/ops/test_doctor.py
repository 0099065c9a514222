"""What `ops doctor` finds of a cluster, asked through Google's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rehearsal.ops.life import Life, part, simulated

ITEMS = ("login", "cluster", "mode", "version", "ray addon")


def findings(life: Life) -> dict[str, Any]:
    """Of the checks that need the GKE API only: the others' services are not simulated."""
    desk, doctor = life.desk(), part("ops.doctor")
    room = doctor.Room(Path("run.toml"), [], "", life.said.append)
    room.__dict__.update(desk=desk, config=desk.config)
    every = [
        *part("ops.checks_local").LOCAL,
        *part("ops.checks_cloud").CLOUD,
        *part("ops.checks_cluster").CLUSTER,
    ]
    chosen = [item for item in every if item.name in ("settings", *ITEMS)]
    return {item.name: item for item in doctor.examine(room, chosen)}


def test_a_cluster_in_order(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        record = life.cloud.gke.clusters["us-central1", "tpu-training"].record
        record.addons_config.ray_operator_config.enabled = True
        assert {item.outcome for item in findings(life).values()} == {"ok"}


@pytest.mark.parametrize(
    ("overrides", "options", "name", "outcome"),
    [
        (["cloud.cluster=other"], {}, "cluster", ("bad", 3)),
        (['cloud.cluster_mode="autopilot"'], {}, "mode", ("bad", 2)),
        ([], {"version": "1.29.1-gke.1"}, "version", ("bad", 4)),
        ([], {}, "ray addon", ("warning", 0)),
    ],
)
def test_a_cluster_that_does_not_fit(
    tmp_path: Path,
    overrides: list[str],
    options: dict[str, Any],
    name: str,
    outcome: tuple[str, int],
) -> None:
    with simulated(tmp_path, *overrides, **options) as life:
        found = findings(life)[name]
    assert (found.outcome, found.exit_code) == outcome, found


def test_a_login_that_ended_is_renewed(tmp_path: Path) -> None:
    with simulated(tmp_path) as life:
        desk = life.desk()
        life.cloud.expire_token()
        assert desk.gke.cluster(desk.place).name == "tpu-training"
