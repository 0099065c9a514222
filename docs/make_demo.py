"""Write docs/demo.svg from what the demo printed: `nox -s demo 2>&1 | python docs/make_demo.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).with_name("demo.svg")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What a reader wants to see: progress, losses, checkpoints, the end; not Ray's set-up of itself.
SESSION = r"nox > (Running|cookiecutter|Session)"
SUMMARY = r"  (loss|speed|checkpoint|metrics|go on) "
SHOWN = re.compile(rf"^({SESSION}|prepare: done|step |\d+ of |{SUMMARY})")
WORKER = re.compile(r"^\((RayTrainWorker) pid=\d+\) ")
FOLDER = re.compile(r"/\S+/(build/demo)")


def shown(lines: list[str]) -> list[str]:
    """The lines of a terminal that a reader wants to see, without this machine's own paths."""
    plain = (WORKER.sub("", COLOUR.sub("", line.rstrip())) for line in lines)
    return [FOLDER.sub(r"\1", line) for line in plain if SHOWN.match(line)]


def main() -> None:
    console = Console(record=True, width=100, file=sys.stderr)
    console.print(Text("$ nox -s demo", style="bold"))
    for line in shown(sys.stdin.readlines()):
        console.print(Text(line))
    PICTURE.write_text(console.export_svg(title="nox -s demo"), encoding="utf-8")


if __name__ == "__main__":
    main()
