"""GitHub's events, taken by the real runner of `act`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rehearsal.ops.life import Life
from rehearsal.ops.pushed import PATIENCE_SECONDS, Pushed
from rehearsal.ops.test_command import heed_interrupts

ACTIONS = {
    "ops": """name: ops
description: stand-in
inputs:
  provider: {description: none, required: true}
  account: {description: none, required: true}
runs:
  using: composite
  steps:
    - run: "true"
      shell: bash
""",
    "preflight": """name: preflight
description: stand-in
runs:
  using: composite
  steps:
    - run: judge --summary "$GITHUB_STEP_SUMMARY"
      shell: bash
""",
}

ACT = Path(sys.executable).with_name("act")
"""Beside Python, where the package installs it: nothing else puts it on PATH."""


class Push(Pushed):
    """A push to main of a made project, or another event, run by act in a copy of it."""

    def __init__(
        self, life: Life, folder: Path, event: str = "push", workflow: str = "train", **more: Any
    ) -> None:
        super().__init__(life, folder, **more)
        for name, action in ACTIONS.items():
            (self.root / f".github/actions/{name}/action.yml").write_text(action)
        told = {"ref": "refs/heads/main", "repository": {"fork": False}}
        (folder / "event.json").write_text(json.dumps(told))
        self._commit()
        self.process = self._begin(event, workflow)

    def _commit(self) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        for words in (
            ("init", "--quiet", "--initial-branch=main"),
            ("add", "--all"),
            (*who, "commit", "--quiet", "-m", "x"),
        ):
            subprocess.run(["git", *words], cwd=self.root, check=True)

    def _begin(self, event: str, workflow: str) -> subprocess.Popen[str]:
        cache = ("--no-cache-server", "--rm", "--action-cache-path", str(self.folder / "cache"))
        variables = ("--var", "WORKLOAD_IDENTITY_PROVIDER=p", "--var", "SERVICE_ACCOUNT=a")
        return subprocess.Popen(
            [
                *(str(ACT), event, "-W", f".github/workflows/{workflow}.yml"),
                *("-P", "ubuntu-24.04=-self-hosted", "-e", str(self.folder / "event.json")),
                *cache,
                *variables,
            ],
            cwd=self.root,
            env=self.environment(),
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def reach(self, verb: str) -> None:
        """Waits until the job of this verb is about to call it."""
        self._wait(lambda: f"Run Main ops {verb}" in self.text())

    def ended(self) -> bool:
        return self.process.poll() is not None

    def cancel(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(seconds)
