"""What a build tells of itself, whichever way it is built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass
class Step:
    text: str
    cached: bool = False
    seconds: float = 0.0

    def took(self, seconds: float) -> Step:
        """Printed as it ends: a build takes minutes."""
        self.seconds = seconds
        how = "cached" if self.cached else f"{self.seconds:.1f} s"
        print(f"{how:>8}  {' '.join(self.text.split())[:90]}", flush=True)
        return self


@dataclass(frozen=True)
class Layer:
    text: str
    size: int


class Builder(Protocol):
    name: str
    caches: bool

    def base(self, name: str) -> str: ...

    def build(self, project: Path, arguments: Mapping[str, str]) -> list[Step]: ...

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in a new container of what was built, as its user."""

    def layers(self) -> list[Layer]: ...

    def clear(self) -> None: ...


def trusted() -> str:
    """What this machine was told to trust, the build trusts too: a proxy may sign for itself."""
    return os.environ.get("SSL_CERT_FILE", "")
