"""A Dockerfile built with no container engine: by buildah, into a store of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from .base import debian
from .steps import CERTIFICATES, Layer, Step, trusted

NAME = "localhost/train"
OWN_BASE = "localhost/base"
STEP = re.compile(r"^(?:\[\d+/\d+\] )?STEP \d+/\d+: (?P<text>(?!FROM).*)$")
CACHED = "--> Using cache"
DONE = "--> "


class Buildah:
    """Root's, in chroot isolation: it asks for no daemon."""

    caches = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = str(json.loads(self._out("info"))["store"]["GraphDriverName"])
        self.name = f"buildah in chroot isolation, storage driver {self.driver}"

    def base(self, name: str) -> str:
        """The real base where its registry can be reached, else one that debootstrap makes."""
        done = self._call("pull", "--quiet", name)
        base = self._own_base(name) if done.returncode else name
        if base == OWN_BASE:
            print(f"{name} cannot be pulled here, debootstrap makes a base:\n{done.stderr.strip()}")
        container = self._out("from", base)
        self._out("run", "--isolation=chroot", container, "--", "true")
        return base

    def build(self, project: Path, arguments: Mapping[str, str]) -> list[Step]:
        words = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        if own := trusted():
            words.append(f"--volume={own}:{CERTIFICATES}:ro")
        command = self._command("build", "--layers", "--pull-never", "--isolation=chroot", *words)
        log = self.folder / "build.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [*command, f"--tag={NAME}", str(project)],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=self._environment(),
            )
            assert process.stdout
            steps = _follow(process.stdout, file)
        assert process.wait() == 0, log.read_text("utf-8")[-4000:]
        return steps

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        container = self._out("from", "--pull-never", NAME)
        try:
            return self._call("run", "--isolation=chroot", container, "--", *words)
        finally:
            self._out("rm", container)

    def layers(self) -> list[Layer]:
        """Those with files in them, in their order."""
        found = json.loads(self._out("inspect", "--type=image", NAME))
        sizes = [layer["size"] for layer in json.loads(found["Manifest"])["layers"]]
        texts = [one["created_by"] for one in found["OCIv1"]["history"] if "empty_layer" not in one]
        return [Layer(text, size) for text, size in zip(texts, sizes, strict=True)]

    def clear(self) -> None:
        self._out("rm", "--all")
        self._out("rmi", "--all", "--force")
        shutil.rmtree(self.folder)

    def _own_base(self, name: str) -> str:
        container = self._out("from", "scratch")
        self._out("add", "--quiet", container, str(debian(name)), "/")
        for word in ("SSL_CERT_FILE", "PIP_CERT"):
            self._out("config", "--env", f"{word}={CERTIFICATES}", container)
        self._out("commit", "--quiet", "--rm", container, OWN_BASE)
        return OWN_BASE

    def _out(self, *words: str) -> str:
        done = self._call(*words)
        done.check_returncode()
        return done.stdout.strip()

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = self._command(*words)
        return subprocess.run(command, capture_output=True, text=True, env=self._environment())

    def _command(self, *words: str) -> list[str]:
        store = (f"--root={self.folder / 'store'}", f"--runroot={self.folder / 'run'}")
        return ["buildah", *store, *words]

    def _environment(self) -> dict[str, str]:
        """What it commits goes through TMPDIR: gigabytes that /tmp may have no room for."""
        return {**os.environ, "TMPDIR": str(self.folder)}


def _follow(lines: Iterable[str], log: TextIO) -> list[Step]:
    """A step that copies from another stage ends after that stage's: the last begun ends first.
    Of a FROM no end is told."""
    begun: list[Step] = []
    ended: list[Step] = []
    before = time.monotonic()
    for line in lines:
        log.write(line)
        log.flush()
        if found := STEP.match(line):
            begun.append(Step(found["text"]))
            before = time.monotonic()
        elif line.startswith(CACHED):
            begun[-1].cached = True
        elif line.startswith(DONE):
            ended.append(begun.pop().took(time.monotonic() - before))
            before = time.monotonic()
    return ended
