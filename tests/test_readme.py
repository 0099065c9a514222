"""Both languages tell the same: the same parts, commands, tables, and names in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from baking import ROOT, Oven

FENCE = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
COMMENT = re.compile(r" *#.*$", re.M)
CODE = re.compile(r"`([^`\n]+)`")


@pytest.fixture(scope="session", params=["template", "torch_xla", "torch_tpu"])
def folder(
    request: pytest.FixtureRequest, oven: Oven, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    if request.param == "template":
        return ROOT
    return oven.bake(tmp_path_factory.mktemp("readme"), framework=request.param)


def text(folder: Path, language: str) -> str:
    return (folder / f"README{language}.md").read_text("utf-8")


def commands(told: str) -> list[str]:
    """What is typed, without what is said about it."""
    blocks = [block for block in FENCE.findall(told) if "->" not in block]
    return [line.rstrip() for block in blocks for line in COMMENT.sub("", block).splitlines()]


def rows(told: str) -> list[str]:
    """The first column of each table where it holds names."""
    lines = [line for line in told.splitlines() if line.startswith("|")]
    return [column for line in lines if "`" in (column := line.split("|")[1])]


def headings(told: str) -> list[str]:
    return [line.split(" ")[0] for line in FENCE.sub("", told).splitlines() if line[:1] == "#"]


def test_they_have_the_same_parts(folder: Path) -> None:
    assert headings(text(folder, ".ja")) == headings(text(folder, ""))


def test_they_give_the_same_commands(folder: Path) -> None:
    assert commands(text(folder, ".ja")) == commands(text(folder, ""))
    assert commands(text(folder, ""))


def test_their_tables_have_the_same_rows(folder: Path) -> None:
    assert rows(text(folder, ".ja")) == rows(text(folder, ""))


def test_one_names_nothing_that_the_other_does_not(folder: Path) -> None:
    assert set(CODE.findall(text(folder, ".ja"))) == set(CODE.findall(text(folder, "")))


@pytest.mark.parametrize("language", ["", ".ja"])
def test_each_leads_to_the_other_and_to_files_that_are_there(folder: Path, language: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text(folder, language))
    assert f"README{'' if language else '.ja'}.md" in links
    assert [link for link in links if not (folder / link).exists()] == []
