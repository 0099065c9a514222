"""The one-time parts of a Google Cloud project: what is missing is made, what is there stays."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import Deadline, Failure
from .clock import Clock, rounds
from .gcloud import Gcloud, Words

NUMBER = "@NUMBER@"
"""Stands in a command for the project's number, which only Google knows."""
POLL_SECONDS = 20
PATIENCE_SECONDS = 2400
"""How long something that an earlier run began to make may take."""


@dataclass(frozen=True)
class Step:
    """One part. `look` shows it; `there` tells from that whether all is as it should be.

    `make` are the commands that make it, `mend` those for a part that is there but lacks
    something. `coming` tells of a part that is being made just now, `wrong` of one that no command
    mends. `skipped` says why it is not wanted. `shown` and `made`, where they are given, act in the
    place of the commands.
    """

    name: str
    why: str
    look: Words = ()
    make: tuple[Words, ...] = ()
    there: Callable[[Any], bool] = bool
    mend: tuple[Words, ...] = ()
    coming: Callable[[Any], bool] = lambda found: False
    wrong: Callable[[Any], Failure | None] = lambda found: None
    skipped: str = ""
    shown: Callable[[], Any] | None = None
    made: Callable[[], None] | None = None


@dataclass(frozen=True)
class Done:
    """`outcome` is "there", "made", "mended" or "skipped"."""

    name: str
    why: str
    outcome: str
    said: str = ""


class Bootstrap:
    """Works through steps; killed anywhere and run again it goes on."""

    def __init__(
        self, gcloud: Gcloud, clock: Clock, say: Callable[[str], None], project: str
    ) -> None:
        self._gcloud, self._clock, self._say, self._project = gcloud, clock, say, project

    def run(self, steps: Iterable[Step]) -> list[Done]:
        """Raises Failure at the first step that fails; those before it stay made."""
        return [self._take(step) for step in steps]

    def _take(self, step: Step) -> Done:
        if step.skipped:
            return Done(step.name, step.why, "skipped", step.skipped)
        self._say(f"looking at {step.name}")
        found = self._settled(step)
        if failure := step.wrong(found):
            raise failure
        if step.there(found):
            return Done(step.name, step.why, "there")
        self._say(f"{'mending' if found else 'making'} {step.name}: {step.why}")
        self._make(step, step.mend if found and step.mend else step.make)
        return Done(step.name, step.why, "mended" if found else "made")

    def _settled(self, step: Step) -> Any:
        """What is there, once nothing works on it any more."""
        for waited in rounds(self._clock, POLL_SECONDS, PATIENCE_SECONDS):
            found = step.shown() if step.shown else self._show(step.look, fresh=waited > 0)
            if not step.coming(found):
                return found
            self._say(f"{step.name} is being made, waiting for {waited:.0f} s")
        raise Deadline(
            f"{step.name} was still being made after {PATIENCE_SECONDS // 60} minutes",
            shlex.join(step.look),
            "look at it in the console, then run `ops bootstrap` again",
        )

    def _show(self, words: Words, fresh: bool) -> Any:
        return self._gcloud.show(self.numbered(words), fresh)

    def _make(self, step: Step, commands: Sequence[Words]) -> None:
        if step.made:
            return step.made()
        for words in commands:
            self._gcloud.make(self.numbered(words))
        return None

    def numbered(self, words: Words) -> Words:
        """The command with the project's number in its place."""
        if not any(NUMBER in word for word in words):
            return words
        found = self._gcloud.show(("gcloud", "projects", "describe", self._project))
        return tuple(word.replace(NUMBER, str(found["projectNumber"])) for word in words)


def shell(words: Words, project: str) -> str:
    """A command as a line to paste; the shell asks for the project's number where it is needed."""
    asked = f"gcloud projects describe {project} --format='value(projectNumber)'"
    return shlex.join(words).replace(NUMBER, f'"$({asked})"')


def commands(steps: Iterable[Step], project: str) -> list[str]:
    """All that a first run would do, in order."""
    return [shell(words, project) for step in steps if not step.skipped for words in step.make]


def described(steps: Iterable[Step], project: str, then: Sequence[Words] = ()) -> dict[str, Any]:
    """What would be done, step by step; asks nobody."""
    return {
        "then": [shell(words, project) for words in then],
        "steps": [
            {
                "name": step.name,
                "why": step.why,
                "skipped": step.skipped,
                "look": shell(step.look, project),
                "commands": commands([step], project),
            }
            for step in steps
        ],
    }


def report(done: Sequence[Done], then: Sequence[Words] = ()) -> dict[str, Any]:
    """`then` are commands for elsewhere, which the person gives."""
    changed = sum(item.outcome in ("made", "mended") for item in done)
    steps = [asdict(item) for item in done]
    return {"steps": steps, "changed": changed, "then": [shlex.join(words) for words in then]}


def report_text(result: dict[str, Any]) -> str:
    width = max(len(item["name"]) for item in result["steps"])
    lines = [
        f"{item['outcome']:<8} {item['name']:<{width}}  {item['said'] or item['why']}"
        for item in result["steps"]
    ]
    changed = result["changed"]
    end = f"{changed} made or mended" if changed else "everything was there; nothing was changed"
    return "\n".join(
        [*lines, end, *(f"  next        {line}" for line in (*result["then"], "ops doctor"))]
    )
