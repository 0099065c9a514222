"""Nothing in the template means something else to Jinja than to its author."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from baking import PROJECT, ROOT, Oven, copy_template, raw
from binaryornot.check import is_binary
from cookiecutter.generate import generate_context
from cookiecutter.utils import create_env_with_context
from jinja2 import Environment

STATEMENTS = ("if", "elif", "else", "endif", "for", "endfor", "set")
NAME = r"cookiecutter\.(\w+)"
FILTERS = r"(\s*\|\s*\w+(\(\"[^\"]*\"\))?)*"
# Free text: only through a filter that fits the file is it safe there.
FREE = {"description"}


@pytest.fixture(scope="session")
def jinja(oven: Oven) -> Environment:
    """The environment that renders the files."""
    context = generate_context(str(oven.template / "cookiecutter.json"))
    environment: Environment = create_env_with_context(context)
    return environment


def faults(source: str, jinja: Environment) -> list[str]:
    """What in a template is neither an answer, nor a plain statement, nor a comment."""
    jinja.from_string(source)
    found, inside, opened = [], "", ""
    for line, kind, value in jinja.lex(source):
        if kind in ("variable_begin", "block_begin", "linestatement_begin", "raw_begin"):
            inside, opened = "", kind
        elif kind == "variable_end":
            match = re.fullmatch(rf"\s*{NAME}(?P<filters>{FILTERS})\s*", inside)
            if not match or match[1] not in raw() or (match[1] in FREE and not match["filters"]):
                found.append(f"line {line}: <<{inside}>>")
        elif kind in ("block_end", "linestatement_end"):
            words = inside.split() or [""]
            names = re.findall(NAME, inside)
            if words[0] not in STATEMENTS or not all(name in raw() for name in names):
                found.append(f"line {line}: <%{inside}%>")
        if opened == "raw_begin":
            found.append(f"line {line}: raw")
        inside += value if not kind.endswith("_begin") else ""
    return found


def template_files() -> list[str]:
    """Every file of the project as git sees it, and the hooks."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        copy = copy_template(Path(folder))
        files = [file for place in (PROJECT, "hooks") for file in (copy / place).rglob("*")]
        return sorted(str(file.relative_to(copy)) for file in files if not file.is_dir())


@pytest.mark.parametrize("name", template_files())
def test_a_file_holds_only_plain_expressions(name: str, jinja: Environment) -> None:
    file = ROOT / name
    assert not file.is_symlink(), "cookiecutter would copy what it points to"
    assert not faults(name, jinja)
    if is_binary(str(file)):
        return
    text = file.read_text("utf-8")
    if name.startswith("hooks/"):
        compile(text, name, "exec")  # it is linted as it lies
        expressions = re.findall(r"<<(.*?)>>", text)
        assert all(expression.strip().endswith("| tojson") for expression in expressions)
    else:
        assert not faults(text, jinja)


@pytest.mark.parametrize(
    "trap",
    [
        "cat <<'EOF' >> f\n",
        "1 << 3 >> 1\n",
        "<< cookiecutter.nobody >>",
        "<< cookiecutter.description >>",
        "<< cookiecutter.__class__ >>",
        "<< 7*7 >>",
        "<% raw %><% endraw %>",
        "<% include 'x' %>",
        "<% if cookiecutter.nobody %><% endif %>",
        "#% if cookiecutter.nobody\n#% endif\n",
        "  #% include 'x'\n",
    ],
)
def test_the_guard_sees_what_renders_to_something_else(trap: str, jinja: Environment) -> None:
    assert faults(trap, jinja)


@pytest.mark.parametrize(
    "trap",
    ["cat <<EOF\n", "<<: *anchor\n", "grep x <<< y\n", "1 << 3\n", "<% if x %>", "#% if x\n"],
)
def test_the_guard_sees_what_would_break_a_bake(trap: str, jinja: Environment) -> None:
    with pytest.raises(Exception, match=r"(?i)expected|unexpected|unclosed|end of"):
        faults(trap, jinja)


def test_the_guard_passes_what_is_meant(jinja: Environment) -> None:
    ours = (
        "<# why #>\n<% if cookiecutter.ci == 'both' %>\n<< cookiecutter.zones | words | toml >>\n"
    )
    lines = "#% if cookiecutter.ci == 'both'\na: b\n#% endif\n"
    others = "${{ github.sha }} {{range .items}} ${x%y} ${#a[@]} {%Y} a >> b ${x#%y}\n"
    assert not faults(f"{ours}<% endif %>\n{lines}{others}", jinja)


def test_each_optional_place_is_in_the_template(oven: Oven) -> None:
    """An option whose files were renamed would silently stay in every project."""
    answers = importlib.import_module("template_extension").load("template_answers.py")
    listed = {name.removeprefix(f"{PROJECT}/") for name in template_files()}
    for place in answers.options(oven.settle()):
        assert any(name == place or name.startswith(f"{place}/") for name in listed), place
