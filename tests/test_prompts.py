"""The questions explain themselves, at the prompt and in docs/prompts.md."""

from __future__ import annotations

import runpy

import pytest
from baking import ROOT, Oven, raw

QUESTIONS = [name for name in raw() if not name.startswith("_")]


def test_each_of_the_fourteen_questions_has_its_text() -> None:
    assert len(QUESTIONS) == 14
    assert list(raw()["__prompts__"]) == QUESTIONS


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_text_reaches_the_terminal_whole_and_names_all_choices(question: str) -> None:
    text = raw()["__prompts__"][question]
    assert "[" not in text, "rich takes [x] for markup and prints nothing of it"
    assert all(choice in text for choice in raw()["_choices"].get(question, []))


def test_the_text_of_generation_names_those_of_the_catalog(oven: Oven) -> None:
    catalog = runpy.run_path(
        str(oven.template / "<<cookiecutter.project>>/src/<<cookiecutter.package>>/slices.py")
    )
    text = raw()["__prompts__"]["generation"]
    for name, generation in catalog["GENERATIONS"].items():
        memory = text.split(name)[1].split("GiB")[0]
        assert str(generation.hbm_gib) in memory


def test_the_page_says_what_cookiecutter_json_says(oven: Oven) -> None:
    maker = runpy.run_path(str(ROOT / "docs" / "make_prompts.py"))
    page = (ROOT / "docs" / "prompts.md").read_text("utf-8")
    assert page == maker["page"](), "run `python docs/make_prompts.py`"
