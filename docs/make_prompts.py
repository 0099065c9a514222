"""Write docs/prompts.md from cookiecutter.json: `python docs/make_prompts.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cookiecutter.generate import generate_context
from cookiecutter.prompt import prompt_for_config

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "prompts.md"
HEAD = """# The questions

Made by `python docs/make_prompts.py` from cookiecutter.json; change the texts there.

On the command line an answer is `name=answer` after the template, and `--no-input` takes the
defaults for all others. Capital letters, spaces around an answer, `gs://` before a bucket and the
like are put right; answers that cannot work are refused together, before anything is written.
"""


def page() -> str:
    """The page as it should be: a section for each question, in the order they are asked."""
    raw = json.loads((ROOT / "cookiecutter.json").read_text(encoding="utf-8"))
    defaults = _defaults()
    sections = [
        _section(name, text, raw["_choices"].get(name), defaults[name], "<<" in raw[name])
        for name, text in raw["__prompts__"].items()
    ]
    return "\n".join([HEAD, *sections])


def _section(name: str, text: str, choices: list[str] | None, default: str, derived: bool) -> str:
    lines = [f"## {name}", "", f"{text}.", ""]
    lines += [f"- Choices: {', '.join(f'`{choice}`' for choice in choices)}"] if choices else []
    follows = "follows the answers before it; where those are the defaults, " if derived else ""
    return "\n".join([*lines, f"- Default: {follows}`{default}`", ""])


def _defaults() -> dict[str, str]:
    sys.path.append(str(ROOT))  # the template's extension lies there
    return dict(prompt_for_config(generate_context(str(ROOT / "cookiecutter.json")), no_input=True))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
