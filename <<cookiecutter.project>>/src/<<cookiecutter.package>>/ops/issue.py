"""One issue on GitHub that tells what the nightly sweep found, by the command `gh`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence

from ..errors import NotFound, Refused

TITLE = "The nightly clean-up found something"

Runner = Callable[[Sequence[str]], tuple[int, str, str]]


def tell(text: str, run: Runner | None = None) -> str:
    """The issue's address: a comment where one is open, else a new one. Raises Failure."""
    call = run or _run
    number = _open(call)
    if number is not None:
        return _asked(call, ("issue", "comment", str(number), "--body", text))
    return _asked(call, ("issue", "create", "--title", TITLE, "--body", text))


def _open(call: Runner) -> int | None:
    """The oldest open issue of that title: two sweeps at a time must not end in two for long."""
    words = ("issue", "list", "--state", "open", "--limit", "200", "--json", "number,title")
    found = json.loads(_asked(call, words) or "[]")
    return min((item["number"] for item in found if item["title"] == TITLE), default=None)


def _asked(call: Runner, words: Sequence[str]) -> str:
    code, told, said = call(("gh", *words))
    if code:
        raise Refused(
            f"gh {' '.join(words[:2])}: {said.strip()}",
            "GitHub",
            "give the job `issues: write` and GH_TOKEN, and run it in the repository's folder",
        )
    return told.strip()


def _run(words: Sequence[str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise NotFound(
            f"gh cannot be run: {error.strerror}", words[0], "leave --issue out, or install gh"
        ) from None
    return done.returncode, done.stdout, done.stderr
