"""One real run of a made project on Google Cloud, and everything given back, whatever happened.

    nox -s cloud -- gcp_project=my-project bucket=my-bucket

It costs money. The exit code is the first one of `ops` that is not 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IMAGE = "image.env"
CHAIN: tuple[tuple[str, ...], ...] = (
    ("doctor",),
    ("build", "--output", IMAGE),
    ("provision",),
    ("submit",),
    ("watch", "--timeout", "60"),
    ("report",),
)
END: tuple[tuple[str, ...], ...] = (("teardown",), ("sweep", "--yes"))


class Project:
    """A made project, and the `ops` that is installed for it."""

    def __init__(self, folder: Path, ops: str) -> None:
        self._folder, self._ops = folder, ops

    def run(self) -> int:
        code = 0
        for words in CHAIN:
            code = code or self._call(*words)
        for words in END:
            ended = self._call(*words)
            code = code or ended
        return code

    def _call(self, *words: str) -> int:
        print(f"== ops {' '.join(words)}", flush=True)
        environment = {**os.environ, **self._built()}
        return subprocess.run([self._ops, *words], cwd=self._folder, env=environment).returncode

    def _built(self) -> dict[str, str]:
        """IMAGE=..., once it is built."""
        file = self._folder / IMAGE
        lines = file.read_text().splitlines() if file.exists() else []
        return dict(line.split("=", 1) for line in lines)


def main() -> None:
    folder, ops = sys.argv[1:]
    sys.exit(Project(Path(folder), ops).run())


if __name__ == "__main__":
    main()
