"""How a run of a container is ended: preStop, SIGTERM, SIGKILL, within its grace period."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from rehearsal.kubelet.containers import Container
from rehearsal.kubelet.stopping import Stopping

Object = dict[str, Any]
LEAST_SECONDS = 2.0
"""What is left for SIGTERM when a preStop hook has used all of the grace period."""
LOOK_SECONDS = 0.1


def end(
    container: Container, spec: Object, stopping: Stopping, say: Callable[[str, str], None]
) -> None:
    if not stopping.at_once:
        _run_hook(container, spec, stopping.left(), say)
        stopping.allow(LEAST_SECONDS)
        container.signal(signal.SIGTERM)
        while stopping.left() and not container.wait_for(LOOK_SECONDS):
            pass
    container.signal(signal.SIGKILL)
    container.wait()


def _run_hook(
    container: Container, spec: Object, seconds: float, say: Callable[[str, str], None]
) -> None:
    hook = (spec.get("lifecycle") or {}).get("preStop") or {}
    if "sleep" in hook:
        container.wait_for(min(seconds, hook["sleep"]["seconds"]))
    elif "exec" in hook:
        code, output = container.execute(hook["exec"]["command"], seconds)
        if code:
            say("FailedPreStopHook", f"PreStopHook failed: {code}: {output.strip()}")
