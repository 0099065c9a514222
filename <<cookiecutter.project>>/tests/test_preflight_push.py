"""What a push may rent without a verdict of the compiler, and what not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from preflight_fixtures import preflight

LIMIT = {"preflight_hbm_share": 1e-6}
V4 = {"hardware_generation": "v4", "hardware_topology": "2x2x1"}


@pytest.mark.parametrize(
    ("excuse", "why"),
    [
        ({"preflight_before_renting": "false"}, "preflight.before_renting = false"),
        (V4, "v4"),
    ],
)
def test_what_is_excused_is_not_compiled_and_told(
    tmp_path: Path, excuse: dict[str, object], why: str
) -> None:
    summary = tmp_path / "summary.md"
    asked: dict[str, object] = {"OPS_BEFORE_RENTING": "true"}
    done = preflight("--summary", str(summary), "--json", **LIMIT, **excuse, **asked)
    assert done.returncode == 0, done.stderr
    assert why in json.loads(done.stdout)["excused"]
    assert "compiling" not in done.stderr
    assert why in summary.read_text("utf-8")


def test_a_setting_that_cannot_work_is_no_excuse(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = preflight("--before-renting", "--summary", str(summary), train_batch_size=6)
    assert done.returncode == 2 and "does not spread" in done.stderr
    assert "does not spread" in summary.read_text("utf-8"), "why nothing was rented"


def test_v4_is_excused_for_a_push_only() -> None:
    assert preflight(**V4).returncode == 2
