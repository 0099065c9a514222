"""What goes into the image of every framework, as far as the project's own files say it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from baking import Oven, raw

CUDA = re.compile(r"(nvidia|cuda|cupy|triton)", re.I)
FRAMEWORKS = raw()["_choices"]["framework"]


def demanded(project: Path) -> list[str]:
    """The requirements of what the Dockerfile installs."""
    table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    return [*table["dependencies"], *table["optional-dependencies"]["tpu"]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_part_of_cuda_is_demanded_or_pinned(oven: Oven, tmp_path: Path, framework: str) -> None:
    project = oven.bake(tmp_path, framework=framework)
    pinned = (project / "constraints.txt").read_text("utf-8").splitlines()
    named = [*demanded(project), *pinned]
    assert any(line.startswith("torch") for line in pinned)
    assert [line for line in named if CUDA.match(line)] == []


def test_the_build_sees_all_that_the_dockerfile_copies_and_nothing_else(
    oven: Oven, tmp_path: Path
) -> None:
    """Keys, environments and data of whoever builds stay where they are."""
    project = oven.bake(tmp_path)
    lines = (project / ".dockerignore").read_text("utf-8").splitlines()
    text = (project / "Dockerfile").read_text("utf-8")
    copied = {
        word.strip("./")
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M)
        for word in line.split()[:-1]
    }
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied
