"""The image of a run, built as the Dockerfile says, and looked into."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import Image

TOOLS = ("uv", "pip", "gcc", "cc", "c++", "make", "git")
WRITABLE = ("/home/ray", "/tmp", "/var/tmp", "/run/lock")  # noqa: S108
KERNEL = ("/dev", "/proc", "/sys")
CUDA = ("nvidia", "triton", "nvidia_*.dist-info", "libcu*.so*", "libtorch_cuda*.so")
CHANGED = (
    "COPY src",
    "RUN uv pip install --no-cache --no-deps",
    "COPY --from=code",
    "COPY run.toml",
    "USER",
)


def test_it_runs_as_nobody_special(image: Image) -> None:
    assert image.out("id", "-u") == "1000"


def test_kuberays_probes_find_wget(image: Image) -> None:
    assert image.out("wget", "--version").startswith("GNU Wget")


def test_python_is_the_one_the_dockerfile_names(image: Image) -> None:
    assert image.out("python", "--version").startswith("Python 3.11.")


def test_ray_and_the_package_are_there(image: Image, package: str) -> None:
    image.out("python", "-c", f"import {package}, ray, torch")
    assert "2.60" in image.out("ray", "--version")


@pytest.mark.parametrize("command", ["train", "drain"])
def test_its_commands_start(image: Image, package: str, command: str) -> None:
    assert "usage:" in image.out("python", "-m", f"{package}.{command}", "--help").lower()


def test_no_tool_of_the_build_is_left(image: Image) -> None:
    found = image.builder.run("sh", "-c", f"command -v {' '.join(TOOLS)}")
    assert found.stdout == ""
    assert image.out("ls", "/opt").split() == ["app", "venv"]


def test_the_user_can_write_only_where_anybody_may(image: Image) -> None:
    leave = " -o ".join(f"-path {place}" for place in (*WRITABLE, *KERNEL))
    search = f"find / ( {leave} ) -prune -o ! -type l -writable -print"
    assert image.builder.run(*search.split()).stdout.split() == []


def test_no_part_of_cuda_is_inside(image: Image) -> None:
    if not image.backend:
        pytest.skip("torch's default build, the only one that can be had here, brings CUDA")
    names = [word for name in CUDA for word in ("-o", "-name", name)]
    found = image.out("find", "/opt", "(", *names[1:], ")", "-print")
    assert found == ""


def test_its_layers_are_told_with_their_sizes(image: Image) -> None:
    if not image.builder.caches:
        pytest.skip(f"{image.builder.name} keeps no layers")
    layers = image.builder.layers()
    for layer in layers:
        print(f"{layer.size / 1e6:>10.1f} MB  {layer.text[-80:]}")
    code = [layer.size for layer in layers if "/opt/app" in layer.text]
    assert sum(code) < sum(layer.size for layer in layers) / 100


def test_a_change_of_code_rebuilds_only_what_holds_code(image: Image, tmp_path: Path) -> None:
    if not image.builder.caches:
        pytest.skip(f"{image.builder.name} keeps no layers")
    changed = tmp_path / "changed"
    leave = shutil.ignore_patterns(".nox", "__pycache__")
    shutil.copytree(image.project, changed, ignore=leave)
    with next(changed.glob("src/*/train.py")).open("a") as file:
        file.write("CHANGED = True\n")
    anew = [step.text for step in image.of(changed).steps if not step.cached]
    assert [text for text in anew if not text.startswith(CHANGED)] == []
    assert any(text.startswith("COPY src") for text in anew)
