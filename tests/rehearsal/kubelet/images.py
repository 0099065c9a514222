"""What a container has for its image: a Python environment, a project, this machine's system."""

from __future__ import annotations

import configparser
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/profile",
    "/etc/ssl",
)
OURS = Path(__file__).parent / "bin"
"""Programs that a slim machine may lack and the project's Dockerfile installs: wget."""
EXTRA = "/opt/rehearsal/bin"
WORK = "/app"
USERS = "root:x:0:0::/root:/bin/bash\nray:x:1000:1000::/home/ray:/bin/bash\n"
GROUPS = "root:x:0:\nray:x:1000:\n"
Bind = tuple[str, str, str]


@dataclass(frozen=True)
class Image:
    """`environment`: a folder as `venv` makes it; `project`: what lies in the working directory;
    `variables`: what the Dockerfile would set beside PATH."""

    environment: Path = Path(sys.prefix)
    project: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    user: int = 1000

    def environ(self) -> dict[str, str]:
        words = [f"{self.environment}/bin", "/usr/local/sbin", "/usr/local/bin"]
        path = ":".join([*words, "/usr/sbin", "/usr/bin", "/sbin", "/bin", EXTRA])
        return {"PATH": path, "PYTHONUNBUFFERED": "1", **self.variables}

    def binds(self) -> Iterator[Bind]:
        """What is mounted where; all of it can only be read."""
        for place in (*SYSTEM, *SETTINGS):
            if Path(place).exists() and not Path(place).is_symlink():
                yield place, place, "read"
        for folder in dict.fromkeys(self._folders()):
            if not folder.is_relative_to("/usr"):
                yield str(folder), str(folder), "read"
        yield str(OURS), EXTRA, "read"
        if self.project:
            yield str(self.project), WORK, "read"

    def links(self) -> Iterator[tuple[str, str]]:
        """`/lib` is one on most machines."""
        for place in map(Path, (*SYSTEM, *SETTINGS)):
            if place.is_symlink():
                yield str(place), str(place.readlink())

    def files(self) -> Iterator[tuple[str, str]]:
        yield "/etc/passwd", USERS
        yield "/etc/group", GROUPS
        # No server: a name that /etc/hosts does not know is refused at once.
        yield "/etc/resolv.conf", ""

    def _folders(self) -> Iterator[Path]:
        yield self.environment
        # Its Python is a link to the one it was made with.
        told = configparser.ConfigParser()
        told.read_string(f"[venv]\n{(self.environment / 'pyvenv.cfg').read_text()}")
        yield Path(told["venv"]["home"]).resolve().parent
        yield (self.environment / "bin" / "python").resolve().parent.parent
        if self.project:
            # An environment may hold the project by its path alone.
            yield self.project
