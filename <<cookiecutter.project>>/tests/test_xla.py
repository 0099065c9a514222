"""torch_xla's SPMD on virtual CPU devices; a process each, for the runtime opens once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_fixtures import assert_told, command, losses, make_shard, overrides, sets

from << cookiecutter.package >>.accelerator.xla import layout


def train(folder: Path, devices: int, **changed: Any) -> dict[str, Any]:
    make_shard(folder / "data")
    on_xla = {"hardware_accelerator": "xla", "hardware_virtual_devices": devices, **changed}
    done = command("train", "--in-process", "--json", *sets(overrides(folder, **on_xla)))
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary | {"stderr": done.stderr}


@pytest.fixture(scope="module")
def four_devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four")
    summary = train(folder, 4)
    assert summary["devices"] == 4
    assert summary["compiled_after_second_step"] == 0
    # Said where the partitioner must first make a tensor whole on every device.
    assert "Involuntary full rematerialization" not in summary["stderr"]
    return folder


@pytest.mark.parametrize("devices", [1, 2])
def test_the_number_of_devices_changes_no_loss(
    tmp_path: Path, four_devices: Path, devices: int
) -> None:
    train(tmp_path, devices)
    assert losses(tmp_path) == pytest.approx(losses(four_devices), rel=1e-3)


def test_a_run_goes_on_bit_for_bit(tmp_path: Path, four_devices: Path) -> None:
    train(tmp_path, 4, train_steps=8, checkpoint_every=5, checkpoint_keep=9)
    newest = max(tmp_path.glob("runs/*/checkpoints/step-00000008-*"))
    (newest / "checkpoint.json").unlink()
    assert train(tmp_path, 4)["went_on_from"] == 5
    assert losses(tmp_path) == losses(four_devices)


def test_parts_and_recomputing_change_no_loss(tmp_path: Path, four_devices: Path) -> None:
    summary = train(tmp_path, 2, train_accumulation=2, train_activation_checkpointing=True)
    assert summary["compiled_after_second_step"] == 0
    assert losses(tmp_path) == pytest.approx(losses(four_devices), rel=1e-3)


@pytest.mark.parametrize(("devices", "fsdp"), [(1, 0), (4, 0), (4, 2)])
def test_recomputing_changes_no_loss(
    tmp_path: Path, four_devices: Path, devices: int, fsdp: int
) -> None:
    train(tmp_path, devices, hardware_fsdp=fsdp, train_activation_checkpointing=True)
    assert losses(tmp_path) == pytest.approx(losses(four_devices), rel=1e-3)


def test_a_data_axis_beside_the_sharding_changes_no_loss(
    tmp_path: Path, four_devices: Path
) -> None:
    train(tmp_path, 4, hardware_fsdp=2)
    assert losses(tmp_path) == pytest.approx(losses(four_devices), rel=1e-3)


def test_a_batch_of_more_tokens_than_rows_changes_no_loss(tmp_path: Path) -> None:
    """There the devices scatter the gradient of the rows themselves."""
    shape = {"train_batch_size": 64, "train_steps": 4}
    for name, devices, fsdp in (("one", 1, 0), ("four", 4, 0), ("apart", 4, 2)):
        summary = train(tmp_path / name, devices, hardware_fsdp=fsdp, train_accumulation=2, **shape)
        assert summary["compiled_after_second_step"] == 0
    for name in ("four", "apart"):
        assert losses(tmp_path / name) == pytest.approx(losses(tmp_path / "one"), rel=1e-3)


def test_a_checkpoint_moves_to_the_cpu_accelerator(tmp_path: Path) -> None:
    train(tmp_path, 4, train_steps=4)
    make = overrides(tmp_path, train_steps=6)
    done = command("train", "--in-process", "--json", *sets(make))
    assert json.loads(done.stdout)["went_on_from"] == 4


def test_no_tpu_is_told_within_the_first_seconds(tmp_path: Path) -> None:
    make_shard(tmp_path / "data")
    tpu = overrides(tmp_path, hardware_accelerator="xla", hardware_placement="slice")
    done = command("train", "--in-process", *sets(tpu))
    assert_told(done, 3, "TPU", "--local")


@pytest.mark.parametrize(
    ("shape", "devices", "cut"),
    [((8, 3), 4, 0), ((3, 8), 4, 1), ((3, 5), 4, None), ((), 4, None), ((0, 8), 4, 1)],
)
def test_a_parameter_is_cut_along_a_side_that_divides(
    shape: tuple[int, ...], devices: int, cut: int | None
) -> None:
    assert layout(shape, devices) == cut
