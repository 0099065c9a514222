"""Ports that others hold are no reason to stop: the run takes the next ones."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from rehearsal.running import losses, settings, train

RAY_PORTS = (6379, 8265, 10001)


def test_a_run_starts_where_ray_s_own_ports_are_busy(data: Path, tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        for port in RAY_PORTS:
            busy = held.enter_context(socket.socket())
            busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            busy.bind(("", port))
            busy.listen()
        words = settings(
            str(tmp_path / "runs"),
            data,
            train_steps=3,
            hardware_accelerator="cpu",
            hardware_placement="any",
            hardware_workers=2,
        )
        train(tmp_path / "log", "--local", *words)
    assert len(losses(tmp_path / "runs")) == 3
