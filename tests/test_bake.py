"""What is baked: the exact files, each of them whole, for every pair of choices."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from baking import PACKAGE, PROJECT, Oven, copy_template, difference, raw, tree
from make_trees import TREES, trees
from markdown_it import MarkdownIt
from test_answers import HOSTILE

PARSERS: dict[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".yaml": lambda text: list(yaml.safe_load_all(text)),
    ".yml": lambda text: list(yaml.safe_load_all(text)),
    ".json": json.loads,
    ".py": lambda text: compile(text, "baked", "exec"),
}
RESIDUE = ("<<", "<%", "<#", "#%", "cookiecutter")


def catalog(oven: Oven) -> Any:
    """The template's own slices.py; its folder's name is none that `import` takes."""
    return importlib.import_module("template_extension").load(f"{PROJECT}/src/{PACKAGE}/slices.py")


def pairs(oven: Oven) -> list[dict[str, str]]:
    """Answers in which each choice meets each other choice and each kind of slice, greedily few."""
    choices = raw()["_choices"]
    shapes = [
        (name, topology)
        for name, one in catalog(oven).GENERATIONS.items()
        for topology in (one.single_host[0], one.multi_host[-1])
    ]
    parameters: list[list[Any]] = [shapes, ["1", "3"], *choices.values()]
    rows = [row for row in itertools.product(*parameters) if possible(oven, *row)]
    meetings = {row: set(itertools.combinations(enumerate(row), 2)) for row in rows}
    wanted = {meeting for met in meetings.values() for meeting in met}
    chosen: list[tuple[Any, ...]] = []
    while wanted:
        chosen.append(max(rows, key=lambda row: len(wanted & meetings[row])))
        wanted -= meetings[chosen[-1]]
    names = ("generation", "topology", "slices", *choices)
    return [dict(zip(names, (*shape, *rest), strict=True)) for shape, *rest in chosen]


def possible(oven: Oven, shape: tuple[str, str], slices: str, *_: str) -> bool:
    return slices == "1" or bool(catalog(oven).find(*shape).multi_host)


def parse(file: Path) -> None:
    text = file.read_text("utf-8")
    try:
        PARSERS[file.suffix](text)
    except Exception as error:
        raise AssertionError(f"{file} is broken: {error}") from error


def test_the_trees_are_the_written_down_ones(oven: Oven, tmp_path: Path) -> None:
    written = {file.stem: file.read_text("utf-8").splitlines() for file in TREES.glob("*.txt")}
    made = trees(oven, tmp_path)
    assert written.keys() == made.keys()
    changes = {name: difference(written[name], lines) for name, lines in made.items()}
    assert {name: lines for name, lines in changes.items() if lines} == {}, (
        "if meant, run `python tests/make_trees.py`"
    )


def test_every_pair_of_choices_is_whole(
    oven: Oven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pairs(oven)
    assert len(rows) > 20
    for number, answers in enumerate(rows):
        package = f"pair_{number}"
        project = oven.bake(tmp_path, project=f"pair-{number}", package=package, **answers)
        for name in tree(project):
            file = project / name.rstrip("*")
            assert not [mark for mark in RESIDUE if mark in f"{name}{file.read_text('utf-8')}"], (
                file
            )
            if file.suffix in PARSERS:
                parse(file)
        monkeypatch.syspath_prepend(project / "src")
        check_settings(project, package, answers)


def check_settings(project: Path, package: str, answers: dict[str, str]) -> None:
    """run.toml holds the answers, and the project itself takes it."""
    table = tomllib.loads((project / "run.toml").read_text("utf-8"))
    hardware, cloud = table["hardware"], table["cloud"]
    assert table["run"]["name"] == cloud["cluster"] == project.name
    assert hardware["generation"] == answers["generation"]
    assert hardware["topology"] == answers["topology"]
    assert hardware["slices"] == int(answers["slices"])
    assert hardware["accelerator"] == {"torch_xla": "xla", "torch_tpu": "tpu"}[answers["framework"]]
    assert cloud["cluster_mode"] == answers["cluster_mode"]
    load = importlib.import_module(f"{package}.settings").load
    one = load(project / "run.toml").hardware.slice
    assert (one.generation, one.topology) == (answers["generation"], answers["topology"])
    readme = (project / "README.md").read_text("utf-8")
    for other in re.findall(r"--compare (\S+)", readme):
        generation, topology = other.split(":")
        assert generation != answers["generation"]
        place = (f"hardware.generation={generation}", f"hardware.topology={topology}")
        load(project / "run.toml", place)
    if told := re.findall(r"--set (hardware\.\S+)", readme):
        load(project / "run.toml", told)


def test_files_hold_the_normal_form_of_the_answers(oven: Oven, tmp_path: Path) -> None:
    project = oven.bake(
        tmp_path,
        project="My Model",
        generation="TPU v6e",
        topology="4X4",
        slices="02",
        gcp_project="projects/Other-1",
        region="US-East5",
        zones="b, a",
        bucket="gs://Data-1/",
        capacity="Reservation: r-1, Spot",
    )
    assert project == tmp_path / "my-model"
    table = tomllib.loads((project / "run.toml").read_text("utf-8"))
    assert table["run"] | {"seed": 0} == {
        "project": "my-model",
        "name": "my-model",
        "storage": "gs://data-1/runs",
        "seed": 0,
    }
    assert table["train"]["batch_size"] == 128, "four sequences for each of 32 chips"
    assert table["hardware"]["slices"] == 2
    assert table["cloud"]["zones"] == ["us-east5-b", "us-east5-a"]
    assert table["cloud"]["capacity"] == ["reservation:r-1", "spot"]
    assert table["cloud"]["registry"] == "us-east5-docker.pkg.dev/other-1/my-model"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_description_breaks_a_file(oven: Oven, tmp_path: Path, text: str) -> None:
    project = oven.bake(tmp_path, description=text)
    for name in tree(project):
        if (project / name).suffix in PARSERS:
            parse(project / name)


@pytest.fixture(scope="module")
def probing(tmp_path_factory: pytest.TempPathFactory) -> Oven:
    """The template with a file of each kind that holds the description, a binary and a program."""
    folder = tmp_path_factory.mktemp("probing")
    project = copy_template(folder / "template") / PROJECT
    (project / "probe.toml").write_text("text = << cookiecutter.description | toml >>\n", "utf-8")
    (project / "probe.yaml").write_text("text: << cookiecutter.description | yaml >>\n", "utf-8")
    (project / "probe.md").write_text("<< cookiecutter.description | markdown >>\n", "utf-8")
    (project / "probe.png").write_bytes(bytes(range(256)) + b"<< broken")
    (project / "probe.sh").write_text("#!/bin/sh\necho here\n", "utf-8")
    (project / "probe.sh").chmod(0o755)
    return Oven(folder / "template", folder / "oven")


@pytest.mark.parametrize("text", HOSTILE)
def test_files_of_each_kind_say_what_was_answered(probing: Oven, tmp_path: Path, text: str) -> None:
    done = probing.cookiecutter(tmp_path, f"description={text}")
    assert done.returncode == 0, done.stdout + done.stderr
    read = {
        file.suffix: file.read_text("utf-8")
        for file in (tmp_path / "tpu-training").glob("probe.[tym]*")
    }
    said = " ".join(text.split())
    assert tomllib.loads(read[".toml"]) == {"text": said}
    assert yaml.safe_load(read[".yaml"]) == {"text": said}
    paragraph = MarkdownIt().parse(read[".md"])[1]
    assert [token.type for token in paragraph.children or []].count("text") >= 1
    assert "".join(token.content for token in paragraph.children or []) == said
    assert {token.type for token in paragraph.children or []} <= {"text", "text_special"}


def test_binaries_and_programs_are_copied_as_they_are(probing: Oven, tmp_path: Path) -> None:
    assert probing.cookiecutter(tmp_path).returncode == 0
    project = tmp_path / "tpu-training"
    assert (project / "probe.png").read_bytes() == bytes(range(256)) + b"<< broken"
    assert os.access(project / "probe.sh", os.X_OK)
    assert not os.access(project / "run.toml", os.X_OK)


def test_a_file_of_the_users_own_stays_where_a_project_is_made_over_it(
    oven: Oven, tmp_path: Path
) -> None:
    own = tmp_path / "tpu-training" / ".github" / "workflows" / "own.yml"
    own.parent.mkdir(parents=True)
    own.write_text("name: own\n", "utf-8")
    done = oven.cookiecutter(tmp_path, "--overwrite-if-exists", "ci=cloudbuild")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [file.name for file in (tmp_path / "tpu-training" / ".github").rglob("*.yml")] == [
        "own.yml"
    ]
    refused = oven.cookiecutter(tmp_path, "ci=cloudbuild")
    assert refused.returncode == 1
    assert "already exists" in refused.stdout
    assert own.read_text("utf-8") == "name: own\n"
