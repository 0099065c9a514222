from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from run_fixtures import losses, make_shard, run, small

from << cookiecutter.package >>.config import Train
from << cookiecutter.package >>.errors import InputError, Refused
from << cookiecutter.package >>.group import Agreed
from << cookiecutter.package >>.loop import Trainer, learning_rate
from << cookiecutter.package >>.stop import ask_to_save
from << cookiecutter.package >>.worker import train_worker


def test_the_loss_falls(tmp_path: Path) -> None:
    summary = run(tmp_path, train_steps=60, train_learning_rate=0.01)
    assert summary["steps"] == 60
    assert summary["last_loss"] < 0.5 * summary["first_loss"]
    assert json.loads(next(tmp_path.glob("runs/*/summary.json")).read_text()) == summary


def test_a_run_goes_on_with_the_losses_of_one_that_never_stopped(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    stopped = tmp_path / "stopped"
    make_shard(stopped / "data")
    seen = iter(range(100))
    ended = train_worker(small(stopped), wanted=lambda: next(seen) > 0)
    assert ended["steps"] <= 8
    went_on = run(stopped)
    assert went_on["went_on_from"] == ended["steps"]
    assert losses(stopped) == losses(tmp_path / "whole")


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    run(tmp_path)
    before = losses(tmp_path)
    again = run(tmp_path)
    assert (again["went_on_from"], again["steps"], again["first_loss"]) == (8, 8, None)
    assert losses(tmp_path) == before


def test_more_steps_train_on(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, train_steps=12)["went_on_from"] == 8
    assert len(losses(tmp_path)) == 12


def test_a_batch_in_parts_is_the_same_batch(tmp_path: Path) -> None:
    run(tmp_path / "whole", train_compute_dtype="float32")
    run(tmp_path / "parts", train_compute_dtype="float32", train_accumulation=4)
    whole, parts = losses(tmp_path / "whole"), losses(tmp_path / "parts")
    assert parts == pytest.approx(whole, rel=1e-5)


def test_recomputed_activations_give_the_same_losses(tmp_path: Path) -> None:
    run(tmp_path / "kept")
    run(tmp_path / "recomputed", train_activation_checkpointing=True)
    assert losses(tmp_path / "recomputed") == losses(tmp_path / "kept")


def test_a_notice_saves_at_once_and_training_goes_on(tmp_path: Path) -> None:
    ask_to_save()
    summary = run(tmp_path, checkpoint_every=100)
    assert summary["steps"] == 8
    steps = {path.name.split("-")[1] for path in tmp_path.glob("runs/*/checkpoints/step-*")}
    assert steps == {"00000002", "00000008"}


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run(tmp_path, checkpoint_every=1, checkpoint_keep=2)
    assert len(list(tmp_path.glob("runs/*/checkpoints/step-*"))) == 2


def test_metrics_of_a_killed_run_are_cut_back_to_its_checkpoint(tmp_path: Path) -> None:
    run(tmp_path, train_steps=6)
    path = next(tmp_path.glob("runs/*/metrics.jsonl"))
    with path.open("a") as file:
        file.write('{"step": 6, "loss": 99.0}\n{"step": 7, "lo')
    run(tmp_path)
    assert losses(tmp_path)[6] < 99.0


def test_a_crash_right_after_a_checkpoint_loses_no_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "whole")
    step = Trainer.step

    def crashing(
        trainer: Trainer, rows: np.ndarray, number: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if number == 3:
            raise MemoryError
        return step(trainer, rows, number)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Trainer, "step", crashing)
        run(tmp_path / "crashed")
    assert run(tmp_path / "crashed")["went_on_from"] == 3
    assert losses(tmp_path / "crashed") == losses(tmp_path / "whole")


def test_tensorboard_has_every_step(tmp_path: Path) -> None:
    run(tmp_path)
    events = next(tmp_path.glob("runs/*/tensorboard/*")).read_bytes()
    assert events.count(b"grad_norm") == 8


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(Agreed) as caught:
        run(tmp_path, model_layers=3)
    assert isinstance(caught.value.failure, InputError)
    assert "layers" in str(caught.value.failure)


def test_storage_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")
    with pytest.raises(Agreed) as caught:
        run(tmp_path)
    assert isinstance(caught.value.failure, Refused)


def test_the_learning_rate_rises_and_falls() -> None:
    train = Train(steps=100, batch_size=8, sequence_length=8, learning_rate=1.0, warmup_steps=10)
    rates = [learning_rate(train, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[99] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_norms_do_not_decay(tmp_path: Path) -> None:
    from << cookiecutter.package >>.accelerator._base import decay_groups
    from << cookiecutter.package >>.model import Transformer

    model = Transformer(small(tmp_path).model.shape(257), torch.float32)
    matrices, norms = decay_groups(model, 0.1)
    assert (matrices["weight_decay"], norms["weight_decay"]) == (0.1, 0.0)
    assert isinstance(norms["params"], list)
    assert len(norms["params"]) == 5
