"""A project follows its template: `cruft create`, `check` and `update`, with the real commands."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from baking import PROJECT, Oven, copy_template, tree


@pytest.fixture
def upstream(tmp_path: Path) -> Oven:
    """The template as a repository with one commit."""
    template = copy_template(tmp_path / "upstream")
    oven = Oven(template, tmp_path / "oven")
    commit(oven, template)
    return oven


def commit(oven: Oven, folder: Path) -> None:
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "x"]):
        done = oven.run("git", *words, cwd=folder)
        assert done.returncode == 0, done.stderr


def create(oven: Oven, **answers: str) -> Path:
    to = oven.place / "made"
    to.mkdir()
    done = oven.run(
        "cruft", "create", "-y", oven.template, "--extra-context", json.dumps(answers), cwd=to
    )
    assert done.returncode == 0, done.stdout + done.stderr
    project = to / answers.get("project", "tpu-training")
    commit(oven, project)
    return project


def settings(project: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((project / "run.toml").read_text("utf-8"))


def test_cruft_and_cookiecutter_make_the_same_project(upstream: Oven, tmp_path: Path) -> None:
    answers = {"project": "mine", "description": "<< 7*7 >>", "zones": "b,c", "ci": "github"}
    ours = create(upstream, **answers)
    words = [f"{name}={answer}" for name, answer in answers.items()]
    assert upstream.cookiecutter(tmp_path / "plain", *words).returncode == 0
    plain = tmp_path / "plain" / "mine"
    extra = [name for name in tree(ours) if not name.startswith(".git/")]
    assert [name for name in extra if name != ".cruft.json"] == tree(plain)
    for name in tree(plain):
        file = name.rstrip("*")
        assert (ours / file).read_bytes() == (plain / file).read_bytes(), file


def test_an_update_brings_the_new_version_and_a_changed_answer(upstream: Oven) -> None:
    project = create(upstream, description="<< 7*7 >>", generation="TPU v6e")
    assert upstream.run("cruft", "check", cwd=project).returncode == 0

    own = (project / "run.toml").read_text("utf-8").replace("steps = 100", "steps = 300")
    (project / "run.toml").write_text(own, "utf-8")
    commit(upstream, project)
    release_with_a_new_filter(upstream)
    assert upstream.run("cruft", "check", cwd=project).returncode == 1

    change = json.dumps({"capacity": "SPOT"})
    done = upstream.run("cruft", "update", "-y", "--variables-to-update", change, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    table = settings(project)
    assert table["new"] == {"description": "<< 7*7 >>!"}, "from the new version"
    assert table["cloud"]["capacity"] == ["spot"], "the changed answer, in its normal form"
    assert table["train"]["steps"] == 300, "the user's own change"
    assert table["hardware"]["generation"] == "v6e"
    assert not list(project.rglob("*.rej"))
    assert upstream.run("cruft", "check", cwd=project).returncode == 0


def release_with_a_new_filter(upstream: Oven) -> None:
    """A version that the old version's extension module must be able to render."""
    answers = upstream.template / "template_answers.py"
    text = answers.read_text("utf-8")
    changed = text.replace('"toml": quoted,', '"toml": quoted, "loud": lambda text: f"{text}!",')
    assert changed != text
    answers.write_text(changed, "utf-8")
    with (upstream.template / PROJECT / "run.toml").open("a", encoding="utf-8") as file:
        file.write("\n[new]\ndescription = << cookiecutter.description | loud | toml >>\n")
    commit(upstream, upstream.template)


def test_a_wrong_answer_is_refused_by_cruft_without_a_traceback(upstream: Oven) -> None:
    wrong = json.dumps({"project": "../evil", "slices": 0})
    done = upstream.run("cruft", "create", "-y", upstream.template, "--extra-context", wrong)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr.startswith("2 answers cannot work")
    assert not list(upstream.place.rglob("run.toml"))
    assert not (upstream.place.parent / "evil").exists()


def test_a_wrong_answer_to_an_update_changes_nothing(upstream: Oven) -> None:
    project = create(upstream)
    change = json.dumps({"topology": "3x3"})
    done = upstream.run("cruft", "update", "-y", "--variables-to-update", change, cwd=project)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert 'v5e has no topology "3x3"' in done.stderr
    assert upstream.run("git", "status", "--porcelain", cwd=project).stdout == ""
