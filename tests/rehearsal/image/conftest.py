from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from .base import wanted
from .buildah import Buildah
from .chroot import Chroot
from .resolving import resolved
from .steps import Builder, Step


@dataclass(frozen=True)
class Image:
    """What was built, by what, and what it took."""

    builder: Builder
    project: Path
    backend: str
    arguments: dict[str, str]
    steps: list[Step]

    def of(self, project: Path) -> Image:
        """Built once more, of other sources."""
        began = time.monotonic()
        steps = self.builder.build(project, self.arguments)
        print(f"built in {time.monotonic() - began:.0f} s")
        return replace(self, project=project, steps=steps)

    def out(self, *words: str) -> str:
        done = self.builder.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def project() -> Path:
    return Path(os.environ["PROJECT"])


@pytest.fixture(scope="session")
def package() -> str:
    return os.environ["PACKAGE"]


@pytest.fixture(scope="session")
def backend(project: Path) -> str:
    if resolved(project, "cpu") is not None:
        return "cpu"
    print("PyTorch's CPU index is out of reach: the default build of torch, with CUDA's libraries")
    return ""


@pytest.fixture(scope="session")
def image(project: Path, backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid():
        pytest.fail('an image is built as root: sudo env "PATH=$PATH" nox -s image', pytrace=False)
    builder, base = _builder(wanted(project), tmp_path_factory)
    print(f"built by {builder.name}")
    arguments = {"BASE": base, "TORCH_BACKEND": backend}
    try:
        yield Image(builder, project, backend, arguments, []).of(project)
    finally:
        builder.clear()


def _builder(name: str, folders: pytest.TempPathFactory) -> tuple[Builder, str]:
    """One that works here, with its base."""
    folder = folders.mktemp("buildah")
    try:
        buildah = Buildah(folder)
        return buildah, buildah.base(name)
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", None) or error
        shutil.rmtree(folder)
        print(f"buildah does not work here, the same steps are taken in a chroot: {told}")
    chroot = Chroot(folders.mktemp("chroot"))
    return chroot, chroot.base(name)
