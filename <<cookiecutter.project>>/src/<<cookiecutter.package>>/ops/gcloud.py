"""The command `gcloud`, run as a list of words; its own words are told when it fails."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

from ..errors import Deadline, Failure, NotFound, Refused
from .clock import Clock

Words = tuple[str, ...]
LONGEST_SECONDS = 3600
PAUSE_SECONDS = 10
TRIES = 13
"""Two minutes: what was just enabled or made is not known to all of Google at once."""

_MISSING = re.compile(r"not[ _]?found|\b404\b|does not exist|unknown service account", re.I)
_LATE = re.compile(
    r"SERVICE_DISABLED|has not been used in project|concurrent policy changes|\b503\b|UNAVAILABLE",
    re.I,
)
_LOGIN = re.compile(r"auth login|reauthenticat|invalid_grant|active account", re.I)
_DENIED = re.compile(r"PERMISSION_DENIED|\b403\b|forbidden|permission|quota", re.I)


class Gcloud:
    """`run` runs words and gives the exit code, stdout and stderr; tests give one of their own."""

    def __init__(
        self,
        clock: Clock,
        say: Callable[[str], None],
        run: Callable[[Words], tuple[int, str, str]] | None = None,
    ) -> None:
        self._clock, self._say, self._run = clock, say, run or _run
        self._shown: dict[Words, Any] = {}

    def show(self, words: Words, fresh: bool = False) -> Any:
        """What a describe or list command tells; None where there is no such thing.

        Asked once until something is made, unless `fresh`. Raises Failure.
        """
        if fresh or words not in self._shown:
            self._shown[words] = self._ask(words)
        return self._shown[words]

    def make(self, words: Words) -> None:
        """Raises Failure."""
        self._shown.clear()
        code, _, said = self._patiently((*words, "--quiet"), may_miss=False)
        if code:
            raise _failure(words, said)

    def _ask(self, words: Words) -> Any:
        code, told, said = self._patiently((*words, "--format=json", "--quiet"), may_miss=True)
        if code:
            if _MISSING.search(said):
                return None
            raise _failure(words, said)
        try:
            return json.loads(told or "null")
        except json.JSONDecodeError:
            raise _failure(words, "its answer is no JSON") from None

    def _patiently(self, words: Words, may_miss: bool) -> tuple[int, str, str]:
        """`may_miss`: that something does not exist is an answer, not a reason to wait."""
        for _ in range(TRIES - 1):
            answer = self._run(words)
            late = _LATE.search(answer[2]) or (not may_miss and _MISSING.search(answer[2]))
            if not (answer[0] and late):
                return answer
            self._say(f"{_last(answer[2])}; trying again")
            self._clock.sleep(PAUSE_SECONDS)
        return self._run(words)


def _run(words: Words) -> tuple[int, str, str]:
    try:
        done = subprocess.run(  # noqa: S603 (a list of words, each from checked settings)
            words, capture_output=True, text=True, timeout=LONGEST_SECONDS, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise NotFound(
            f"{words[0]} is not installed",
            "PATH",
            "install it: https://cloud.google.com/sdk/docs/install",
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise Deadline(
            f"{words[0]} did not end well: {error}", " ".join(words), "run the same command again"
        ) from None
    return done.returncode, done.stdout, done.stderr


def _failure(words: Words, said: str) -> Failure:
    where = " ".join(words)
    if _LOGIN.search(said):
        return Refused(f"gcloud has no login: {_last(said)}", where, "log in: gcloud auth login")
    if _DENIED.search(said):
        remedy = "ask an owner of the Google Cloud project for the right or quota that is named"
        return Refused(f"gcloud was refused: {said.strip()}", where, remedy)
    remedy = "mend what gcloud names, then run `ops bootstrap` again: it goes on from here"
    return NotFound(f"gcloud failed: {said.strip()}", where, remedy)


def _last(said: str) -> str:
    return (said.strip().splitlines() or ["gcloud failed without a word"])[-1]
