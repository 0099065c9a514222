"""The steps of a made Cloud Build file, run in order by the rules of Cloud Build.

A step that fails ends the build, unless it may fail; nothing runs after a cancel. The steps that
fetch tools are left out: the tools are stand-ins.
"""

from __future__ import annotations

import string
import subprocess
import threading
from pathlib import Path
from typing import Any

import yaml

from rehearsal.ops.life import Life
from rehearsal.ops.pushed import PATIENCE_SECONDS, Pushed

BUILT_IN = {"SHORT_SHA": "0a1b2c3"}
FETCH = ("install", "docker")


class Build(Pushed):
    """A build of this file, in a thread; `code` is its exit code, and None while it runs."""

    def __init__(self, life: Life, folder: Path, name: str = "train", **more: Any) -> None:
        super().__init__(life, folder, **more)
        for environment, program in (("ops", "ops"), ("preflight", "judge")):
            place = self.root / ".nox" / environment / "bin"
            place.mkdir(parents=True)
            (place / "ops").symlink_to(folder / "bin" / program)
        self.code: int | None = None
        self.begun: list[str] = []
        self._cancelled = threading.Event()
        self._asked = yaml.safe_load((self.root / f"cloudbuild/{name}.yaml").read_text("utf-8"))
        self.log.touch()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        code = 0
        for step in self._asked["steps"]:
            if self._cancelled.is_set() or code:
                break
            if step["id"] not in FETCH:
                self.begun.append(step["id"])
                code = 0 if self._step(step) == 0 or step.get("allowFailure") else 1
        self.code = 1 if self._cancelled.is_set() else code

    def _step(self, step: dict[str, Any]) -> int:
        words = [word.replace("/workspace", str(self.root)) for word in step["args"]]
        variables = dict(text.split("=", 1) for text in self._substituted(step.get("env", [])))
        with self.log.open("a") as log:
            return subprocess.run(
                [step["entrypoint"], *words],
                cwd=self.root,
                env=self.environment(**variables),
                stdout=log,
                stderr=subprocess.STDOUT,
            ).returncode

    def _substituted(self, texts: list[str]) -> list[str]:
        known = dict(BUILT_IN)
        for name, value in self._asked.get("substitutions", {}).items():
            known[name] = string.Template(value).substitute(known)
        return [string.Template(text).substitute(known) for text in texts]

    def reach(self, verb: str) -> None:
        """Waits until the step of this verb has begun."""
        self._wait(lambda: verb in self.begun)

    def ended(self) -> bool:
        return self.code is not None

    def cancel(self) -> None:
        self._cancelled.set()
        self.kill()

    def end(self) -> int:
        self._thread.join(PATIENCE_SECONDS)
        assert self.code is not None, self.text()
        return self.code
