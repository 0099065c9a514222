"""The template's own workflows run the sessions, on both systems the same, and nothing else."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from baking import ROOT

GITHUB = ROOT / ".github" / "workflows"
NOX = re.compile(r"nox -s ([\w\" $-]+?)(?: -- |$)", re.M)
PRIVILEGED = {"cluster", "ends"}
"""They make network namespaces, which a step of Cloud Build may not."""
ROOT_S = 'sudo env "PATH=$PATH" '
BESIDE = ("python -m pip install 'nox[uv]", "sudo apt-get update", "gh release create ")
"""What is not a session: what brings its tools, and what only GitHub's own command can do."""


def sessions() -> set[str]:
    """By their names in noxfile.py."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    marked = [node for node in found if "nox.session" in map(_name, node.decorator_list)]
    return {node.name.removesuffix("_session") for node in marked}


def _name(node: ast.expr) -> str:
    return ast.unparse(node).partition("(")[0]


def on_github(name: str) -> set[str]:
    text = (GITHUB / f"{name}.yml").read_text("utf-8")
    called: set[str] = set()
    for job in yaml.safe_load(text)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {}).get("session", [])
        for words in NOX.findall("\n".join(step.get("run", "") for step in job.get("steps", []))):
            called |= set(matrix) if words == '"$SESSION"' else set(words.split())
    return called


def on_cloud_build(name: str) -> set[str]:
    text = (ROOT / "cloudbuild" / f"{name}.yaml").read_text("utf-8")
    steps = yaml.safe_load(text)["steps"]
    found = [words for step in steps for words in NOX.findall(step["args"][-1])]
    return set(" ".join(found).split())


@pytest.mark.parametrize("name", ["ci", "nightly"])
def test_both_systems_run_the_same_sessions(name: str) -> None:
    assert on_github(name) - PRIVILEGED == on_cloud_build(name)
    assert on_github(name) <= sessions()


def test_every_session_that_proves_something_runs_somewhere() -> None:
    by_hand = {"demo", "bake", "bench", "bump"}
    assert sessions() - by_hand == on_github("ci") | on_github("nightly") | on_github("release")


@pytest.mark.parametrize("file", sorted(GITHUB.glob("*.yml")), ids=lambda file: file.stem)
def test_nothing_is_run_that_is_no_session(file: Path) -> None:
    whole: dict[Any, Any] = yaml.safe_load(file.read_text("utf-8"))
    assert whole["permissions"] == {}
    for step in itertools.chain(*(job.get("steps", []) for job in whole["jobs"].values())):
        command = step.get("run", "nox -s").removeprefix(ROOT_S)
        assert command.startswith(("nox -s", *BESIDE)) and "\n" not in command
        assert "${{" not in command
