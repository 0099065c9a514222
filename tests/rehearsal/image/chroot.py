"""The steps of a Dockerfile, taken one by one in a chroot: where no buildah works."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]

from .base import debian
from .steps import CERTIFICATES, Layer, Step, trusted

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Stage:
    root: Path
    arguments: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    place: str = "/"
    user: str = "0"

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        known = {**self.arguments, **self.variables}
        inside = ("env", "--ignore-environment", f"--chdir={self.place}")
        values = [f"{name}={value}" for name, value in known.items()]
        command = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root), *inside]
        return subprocess.run([*command, *values, *words], capture_output=True, text=True)


class Chroot:
    """Knows the instructions that the Dockerfile has, and fails at any other. Keeps no layers."""

    name = "the Dockerfile's steps in a chroot"
    caches = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages: dict[str, Stage] = {}
        self.arguments: dict[str, str] = {}

    def base(self, name: str) -> str:
        return str(debian(name))

    def build(self, project: Path, arguments: Mapping[str, str]) -> list[Step]:
        self.given, self.project = arguments, project
        steps = []
        with (project / "Dockerfile").open("rb") as file:
            parser = DockerfileParser(fileobj=file)
            for one in parser.structure:
                if one["instruction"] != "COMMENT":
                    steps.append(self._step(one["instruction"], one["value"]))
        return steps

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._stage.call(*words)

    def layers(self) -> list[Layer]:
        return []

    def clear(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def _stage(self) -> Stage:
        return list(self.stages.values())[-1]

    def _step(self, instruction: str, value: str) -> Step:
        began = time.monotonic()
        getattr(self, f"_{instruction.lower()}")(value)
        return Step(f"{instruction} {value}").took(time.monotonic() - began)

    def _from(self, value: str) -> None:
        words = Template(value).substitute(self.arguments).split()
        origin, name = words[0], words[-1]
        root = self.folder / f"stage-{len(self.stages)}"
        if before := self.stages.get(origin):
            subprocess.run(["cp", "--archive", str(before.root), str(root)], check=True)
            known = dict(before.variables)
            self.stages[name] = Stage(root, variables=known, place=before.place)
        else:
            self.stages[name] = _unpacked(Path(origin), root)

    def _arg(self, value: str) -> None:
        name, _, default = value.partition("=")
        known = self._stage.arguments if self.stages else self.arguments
        known[name] = self.given.get(name, default)

    def _env(self, value: str) -> None:
        known = self._stage.variables
        for word in shlex.split(value):
            name, _, text = word.partition("=")
            known[name] = Template(text).substitute(known)

    def _workdir(self, value: str) -> None:
        self._stage.place = value
        self._inside(value).mkdir(parents=True, exist_ok=True)

    def _user(self, value: str) -> None:
        self._stage.user = value

    def _run(self, value: str) -> None:
        done = self._stage.call("sh", "-c", value)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _copy(self, value: str) -> None:
        words = value.split()
        origin = self.project
        if words[0].startswith("--from="):
            origin = self.stages[words.pop(0).removeprefix("--from=")].root
        *sources, target = words
        place = self._inside(os.path.join(self._stage.place, target))  # noqa: PTH118
        for source in sources:
            _copied(origin / source.lstrip("/"), place)

    def _inside(self, path: str) -> Path:
        return self._stage.root / path.lstrip("/")


def _unpacked(base: Path, root: Path) -> Stage:
    root.mkdir()
    subprocess.run(["tar", "-xpf", str(base), "-C", str(root)], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    stage = Stage(root)
    if own := trusted():
        shutil.copy(own, root / CERTIFICATES.lstrip("/"))
        stage.variables |= {"SSL_CERT_FILE": CERTIFICATES, "PIP_CERT": CERTIFICATES}
    return stage


def _copied(source: Path, place: Path) -> None:
    """As COPY does: of a folder what lies in it, and all of it root's."""
    place.mkdir(parents=True, exist_ok=True)
    what = f"{source}/." if source.is_dir() else str(source)
    command = ["cp", "--recursive", "--preserve=mode,timestamps,links", what, str(place)]
    subprocess.run(command, check=True)
