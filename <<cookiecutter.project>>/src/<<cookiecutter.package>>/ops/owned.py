"""What is ours: the labels that everything rented carries, and the names made from a run's.

Nothing without these labels is ever touched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

MANAGED_BY = "ray-tpu-template"
LIFETIME = "lifetime-seconds"
"""The annotation of what expires so long after it was made: a file knows no date."""
LONGEST_POOL = 40
LONGEST_POLICY = 63
LONGEST_RAYJOB = 47


@dataclass(frozen=True)
class Owner:
    """Whose a thing is: a run of a project. Times are seconds since the epoch.

    A time is None where a label is missing or no number: a thing without the first two is reported,
    never deleted by the sweep. `starts_by` is when its job must have begun, at the latest.
    """

    project: str
    run: str
    created_at: int | None = None
    expires_at: int | None = None
    starts_by: int | None = None

    def labels(self) -> dict[str, str]:
        times = {
            "created-at": self.created_at,
            "expires-at": self.expires_at,
            "starts-by": self.starts_by,
        }
        stamps = {key: str(value) for key, value in times.items() if value is not None}
        return {"managed-by": MANAGED_BY, "project": self.project, "run": self.run, **stamps}

    def text(self) -> str:
        """The labels as one line, for things that have a description and no labels."""
        return " ".join(f"{key}={value}" for key, value in self.labels().items())


def owner_of(labels: Mapping[str, str]) -> Owner | None:
    """Whose a thing with these labels is; None where it is not ours."""
    if labels.get("managed-by") != MANAGED_BY or not (labels.get("project") and labels.get("run")):
        return None
    times = [_seconds(labels.get(key)) for key in ("created-at", "expires-at", "starts-by")]
    return Owner(labels["project"], labels["run"], *times)


def owner_of_text(text: str) -> Owner | None:
    return owner_of(dict(re.findall(r"([a-z-]+)=(\S+)", text)))


def selector(**labels: str) -> str:
    """A label selector of Kubernetes for what is ours, narrowed by these labels."""
    return ",".join(f"{key}={value}" for key, value in {"managed-by": MANAGED_BY, **labels}.items())


def pool_name(run: str, attempt: int, index: int) -> str:
    """The node pool of one slice; the same for the same run, attempt and slice."""
    return fitted(run, f"-t{attempt}-s{index}", LONGEST_POOL)


def rayjob_name(run: str) -> str:
    return fitted(run, "", LONGEST_RAYJOB)


def fitted(name: str, suffix: str, longest: int) -> str:
    """`name` and `suffix`; a name too long keeps its beginning and gets a digest of the whole."""
    room = longest - len(suffix)
    if len(name) > room:
        digest = hashlib.sha256(name.encode()).hexdigest()[:7]
        name = f"{name[: room - 8].rstrip('-')}-{digest}"
    return name + suffix


def _seconds(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,12}", text) else None
