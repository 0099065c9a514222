"""What must hold before anything is rented, looked at one check after another.

A check is a function: its name is the check's, its docstring says why it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..errors import Failure
from ..settings import load
from .accounts import bucket
from .clock import WallClock

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.cloud.container_v1 import types

    from .desk import Desk
    from .kube_setup import KubeSetup
    from .rest import Rest


class Doubt(Exception):
    """What was found may do, or cannot be seen from here."""


class Room:
    """What the checks look at; each thing is asked for once, when the first check needs it."""

    def __init__(
        self, file: Path, overrides: Sequence[str], image: str, say: Callable[[str], None]
    ) -> None:
        self.file, self.overrides, self.image, self.say = file, overrides, image, say

    def now(self) -> float:
        return WallClock().now()

    @cached_property
    def config(self) -> Config:
        """Raises InputError, NotFound."""
        return load(self.file, self.overrides)

    @cached_property
    def desk(self) -> Desk:
        # Google's and Kubernetes' clients take a second to load: not for --local.
        from .desk import Desk

        return Desk(self.config, self.say)

    @cached_property
    def credentials(self) -> Credentials:
        return self.desk.credentials

    @cached_property
    def rest(self) -> Rest:
        return self.desk.rest

    @cached_property
    def cluster(self) -> types.Cluster:
        return self.desk.gke.cluster(self.desk.place)

    @cached_property
    def kube(self) -> KubeSetup:
        from .kube_setup import KubeSetup

        return KubeSetup(self.desk.remote, self.credentials, self.cluster)


@dataclass(frozen=True)
class Check:
    """`mend` is a command, or words where no command mends it; {project} and its like stand for
    names of run.toml. `look` returns what it found; it raises Failure, or Doubt for a warning.
    A Failure without a remedy of its own is mended by `mend`."""

    name: str
    why: str
    mend: str
    look: Callable[[Room], str]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """`outcome` is "ok", "warning", "bad" or "skipped"; `exit_code` is 0 unless it is bad."""

    name: str
    why: str
    outcome: str
    found: str
    mend: str = ""
    exit_code: int = field(default=0, repr=False)


def check(mend: str, *needs: str) -> Callable[[Callable[[Room], str]], Check]:
    """Makes a check of a function; it is skipped unless all of `needs` were found in order."""

    def made(look: Callable[[Room], str]) -> Check:
        name = look.__name__.strip("_").replace("_", " ")
        return Check(name, " ".join((look.__doc__ or "").split()), mend, look, needs)

    return made


def examine(room: Room, checks: Iterable[Check]) -> list[Finding]:
    """All findings, in order; one bad thing never hides another that can be seen without it."""
    findings: dict[str, Finding] = {}
    for item in checks:
        room.say(f"looking at {item.name}")
        missing = [name for name in item.needs if not _sound(findings.get(name))]
        if missing:
            found = f"not looked at: first mend {', '.join(missing)}"
            findings[item.name] = Finding(item.name, item.why, "skipped", found)
        else:
            findings[item.name] = _look(room, item)
    return list(findings.values())


def _sound(finding: Finding | None) -> bool:
    return finding is not None and finding.outcome in ("ok", "warning")


def _look(room: Room, item: Check) -> Finding:
    try:
        return Finding(item.name, item.why, "ok", item.look(room))
    except Doubt as doubt:
        return Finding(item.name, item.why, "warning", str(doubt), _filled(item.mend, room))
    except Failure as failure:
        from .remote import Missing

        own = "" if isinstance(failure, Missing) else failure.remedy
        mend = own or _filled(item.mend, room)
        found = f"{failure.what} ({failure.where})"
        return Finding(item.name, item.why, "bad", found, mend, failure.exit_code)


def _filled(mend: str, room: Room) -> str:
    """The command with run.toml's names in it; as it stands where run.toml cannot be read."""
    try:
        cloud = room.config.cloud
    except Failure:
        return mend
    names = {"project": cloud.project, "region": cloud.region, "cluster": cloud.cluster}
    return mend.format(**names, bucket=bucket(room.config.run.storage))


def report(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "checks": [asdict(finding) for finding in findings],
        "bad": sum(finding.outcome == "bad" for finding in findings),
        "exit_code": next((item.exit_code for item in findings if item.outcome == "bad"), 0),
    }


def report_text(result: dict[str, Any]) -> str:
    """A line a check; what is not in order is followed by why it matters and what mends it."""
    width = max(len(item["name"]) for item in result["checks"])
    lines: list[str] = []
    for item in result["checks"]:
        found = item["found"].replace("\n", "\n" + " " * (width + 11))
        lines.append(f"{item['outcome']:<8} {item['name']:<{width}}  {found}")
        if item["outcome"] in ("bad", "warning"):
            lines.append(f"{'':<8} {'':<{width}}  why it matters: {item['why']}")
            lines.append(f"{'':<8} {'':<{width}}  what to do: {item['mend']}")
    count = result["bad"]
    return "\n".join([*lines, f"{count} to mend" if count else "nothing is in the way of a run"])
