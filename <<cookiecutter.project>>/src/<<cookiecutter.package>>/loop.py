"""The loop of one worker. It knows no hardware: `accelerator/` does."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn
from torch.optim import AdamW

from .accelerator._base import Accelerator, Reader, training_state
from .checkpoint import CheckpointStore
from .config import Config, Train
from .mirror import Mirror
from .model import Transformer
from .stop import Stop
from .telemetry import Pending, Phases, Telemetry


def learning_rate(train: Train, step: int) -> float:
    """Linear warm-up, then a cosine down to `final_learning_rate` of the peak at the last step."""
    if step < train.warmup_steps:
        return train.learning_rate * (step + 1) / train.warmup_steps
    progress = (step - train.warmup_steps) / max(1, train.steps - 1 - train.warmup_steps)
    floor = train.final_learning_rate
    return train.learning_rate * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)


@dataclass
class Trainer:
    """A model, its optimizer and the accelerator that they live on."""

    train: Train
    accelerator: Accelerator
    model: Transformer
    optimizer: AdamW

    @classmethod
    def build(
        cls, train: Train, accelerator: Accelerator, model: Transformer, read: Reader
    ) -> Trainer:
        return cls(train, accelerator, model, accelerator.prepare(model, train, read))

    def step(self, rows: np.ndarray, step: int) -> tuple[Tensor, Tensor]:
        """One optimizer step on this worker's rows; loss and gradient norm, still on the device."""
        rate = learning_rate(self.train, step)
        losses = [self._backward(part) for part in np.split(rows, self.train.accumulation)]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip, foreach=False)
        self.accelerator.set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        # None, not zeros: each step then traces the same graph as the first.
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.accelerator.mean(sum(losses[1:], losses[0]))
        self.accelerator.end_step()
        return loss, norm

    def _backward(self, rows: np.ndarray) -> Tensor:
        loss: Tensor = self.model(self.accelerator.place(rows)) / self.train.accumulation
        loss.backward()  # type: ignore[no-untyped-call]
        if self.train.accumulation > 1:
            self.accelerator.end_step()
        return loss.detach()


@dataclass
class Loop:
    """Steps and checkpoints, until the last step or until it is asked to end."""

    config: Config
    trainer: Trainer
    batches: Iterator[np.ndarray]
    store: CheckpointStore
    telemetry: Telemetry
    stop: Stop
    phases: Phases
    mirror: Mirror
    _early_graphs: int = 0

    @property
    def compiled_late(self) -> int:
        """Graphs compiled after the second step: each one is a stall that nobody asked for."""
        return self.trainer.accelerator.compiled_graphs() - self._early_graphs

    def run(self, start: int) -> int:
        """Trains from step `start` on; the number of steps that are done at the end."""
        done = saved = start
        ended = False
        while done < self.config.train.steps and not ended:
            self._step(done, first=done == start)
            done += 1
            if done <= start + 2:
                self._early_graphs = self.trainer.accelerator.compiled_graphs()
            if done == start + 2:
                self.trainer.accelerator.keep_compiled()
            decision = self.stop.decide()
            ended = decision.end
            if decision.save or done % self.config.checkpoint.every == 0:
                self._save(done)
                saved = done
        self.telemetry.flush()
        if saved < done:
            self._save(done)
        with self.phases("last_upload"):
            self.store.wait()
        return done

    def _step(self, step: int, first: bool) -> None:
        if not first:
            return self._dispatch(step)
        with self.phases("first_step"):
            self._dispatch(step)
            # Compilation is over when the loss is there; what follows is counted apart.
            self.telemetry.flush()
        return None

    def _dispatch(self, step: int) -> None:
        began = time.perf_counter()
        rows = next(self.batches)
        waited = time.perf_counter() - began
        loss, norm = self.trainer.step(rows, step)
        rate = learning_rate(self.config.train, step)
        self.telemetry.step(Pending(step, loss, norm, rate, waited))

    def _save(self, done: int) -> None:
        with self.phases("checkpoint"):
            # Metrics go first: those of a step that is saved must not be lost with the machine.
            self.telemetry.flush()
            # The copies of the save before must go first, or the host holds two of the model.
            self.store.wait()
            state = training_state(self.trainer.model, self.trainer.optimizer)
            copies = self.trainer.accelerator.snapshot(state)
            self.store.save(done, copies, self.telemetry.progress(), before=self.mirror.push)
        self.telemetry.skip()
