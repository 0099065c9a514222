"""TorchTPU needs a TPU; what can be seen without one is that its absence is told."""

from __future__ import annotations

from pathlib import Path

from run_fixtures import assert_told, command, make_shard, overrides, sets


def test_no_tpu_is_told_within_the_first_seconds(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    tpu = overrides(tmp_path, hardware_accelerator="tpu", hardware_placement="slice")
    done = command("train", "--in-process", *sets(tpu))
    assert_told(done, 3, "TPU", "--local")
