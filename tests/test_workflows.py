"""The workflows of a made project: both systems do the same, and nothing that they should not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from baking import Oven, raw, tree

NAMES = ("train", "watch", "cleanup")
CHAIN = ("build", "provision", "submit", "watch", "report", "teardown")
PREFIX = "ops "
SHELL = re.compile(r"[;&|<>`]|\$\(")


@pytest.fixture(scope="session")
def project(oven: Oven, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return oven.bake(tmp_path_factory.mktemp("workflows"))


def workflow(project: Path, name: str) -> dict[Any, Any]:
    """`on` is read as True: YAML 1.1 has it for a yes."""
    found: dict[Any, Any] = yaml.safe_load(
        (project / f".github/workflows/{name}.yml").read_text("utf-8")
    )
    return found


def build(project: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((project / f"cloudbuild/{name}.yaml").read_text("utf-8"))
    return found


def steps(project: Path, name: str) -> Iterator[dict[str, Any]]:
    """Of all jobs, in the order of the file."""
    for job in workflow(project, name)["jobs"].values():
        yield from job["steps"]


def on_github(project: Path, name: str) -> list[list[str]]:
    """The words of each `ops`, without the step that only a cancel brings: Cloud Build has none."""
    found = [step for step in steps(project, name) if "cancelled()" not in step.get("if", "")]
    commands = [step.get("run", "") for step in found]
    return [plain(text.split()[1:]) for text in commands if text.startswith(PREFIX)]


def on_cloud_build(project: Path, name: str) -> list[list[str]]:
    found = [step.get("args", []) for step in build(project, name)["steps"]]
    return [plain(args[3:]) for args in found if args[2:3] == ["ops"]]


def plain(words: list[str]) -> list[str]:
    """What differs between the systems by their nature: files, time limits, GitHub's issue."""
    text = " ".join(words)
    for option in (r"--(summary|output) \S+", r"--timeout \d+", "--issue"):
        text = re.sub(rf" {option}", "", text)
    return text.split()


@pytest.mark.parametrize("name", NAMES)
def test_both_systems_call_the_same_verbs_in_the_same_order(project: Path, name: str) -> None:
    assert on_github(project, name) == on_cloud_build(project, name)
    assert on_github(project, name)


def test_a_push_goes_through_the_whole_chain(project: Path) -> None:
    assert [words[0] for words in on_github(project, "train")] == ["sweep", *CHAIN]
    jobs = workflow(project, "train")["jobs"]
    assert tuple(jobs) == (CHAIN[0], "preflight", *CHAIN[1:])
    for before, after in pairwise(CHAIN):
        assert before in jobs[after]["needs"]


def test_both_systems_know_a_run_by_the_same_variables(project: Path) -> None:
    ours = set(workflow(project, "train")["env"])
    for step in build(project, "train")["steps"]:
        if step["id"] in ("preflight", *CHAIN):
            assert {text.partition("=")[0] for text in step["env"]} == ours
            assert step["allowFailure"], "else no step after it would run, not even teardown"
    for name in NAMES:
        assert build(project, name)["steps"][-1]["id"] in ("end", "sweep")
        assert not build(project, name)["steps"][-1].get("allowFailure")


def test_the_image_is_handed_on(project: Path) -> None:
    jobs = workflow(project, "train")["jobs"]
    assert jobs["build"]["outputs"] == {"image": "${{ steps.image.outputs.IMAGE }}"}
    assert jobs["submit"]["steps"][-1]["env"] == {"IMAGE": "${{ needs.build.outputs.image }}"}
    (made,) = (step for step in build(project, "train")["steps"] if step["id"] == "build")
    assert made["args"][-1] == "/workspace/outputs.env"


def test_no_step_holds_logic(project: Path) -> None:
    for name in NAMES:
        for step in steps(project, name):
            command = step.get("run", "ops")
            assert command.startswith("ops") and "\n" not in command
            assert not SHELL.search(command), command


def test_a_teardown_runs_whatever_happened_and_waits_for_nobody(project: Path) -> None:
    jobs = workflow(project, "train")["jobs"]
    assert jobs["teardown"]["if"].startswith("always()")
    *before, cancelled, last = jobs["teardown"]["steps"]
    assert all(step["if"] == "always()" for step in (*before, last))
    assert "cancelled()" in cancelled["if"] and cancelled["run"] == "ops teardown"
    assert [name for name, job in jobs.items() if "environment" in job] == ["provision"]
    assert workflow(project, "train")["concurrency"]["cancel-in-progress"] is False


@pytest.mark.parametrize("name", ["ci", *NAMES])
def test_rights_and_time_are_bounded(project: Path, name: str) -> None:
    whole = workflow(project, name)
    assert whole["permissions"] == {}
    assert "pull_request_target" not in whole[True]
    for job in whole["jobs"].values():
        allowed = {"contents": "read"} | ({} if name == "ci" else {"id-token": "write"})
        assert job["permissions"] == allowed | ({"issues": "write"} if name == "cleanup" else {})
        assert job["timeout-minutes"] <= 360
        if name != "ci":
            assert "fork" in job.get("if", "") or job.get("needs")
    assert build(project, name)["timeout"].endswith("s")
    assert int(build(project, name)["timeout"][:-1]) <= 86400


def test_who_logs_in_does_so_as_an_account_of_its_own(project: Path) -> None:
    for name in NAMES:
        assert "tpu-training-build@" in build(project, name)["serviceAccount"]
        assert build(project, name)["options"]["logging"] == "CLOUD_LOGGING_ONLY"


def test_everything_from_outside_is_pinned_and_leaves_no_credentials(project: Path) -> None:
    files = [*(project / ".github").rglob("*.yml")]
    used = [line for file in files for line in file.read_text("utf-8").splitlines()]
    used = [line.split("uses:")[1].strip() for line in used if "uses:" in line]
    assert len(used) > 10
    for action in used:
        assert action.startswith("./") or re.fullmatch(r"\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
    for name in ("ci", *NAMES):
        for step in steps(project, name):
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ["ci", *NAMES])
def test_no_shell_line_holds_an_expression(project: Path, name: str) -> None:
    for step in steps(project, name):
        assert "${{" not in step.get("run", "")


def matches(path: str, patterns: list[str]) -> bool:
    """As GitHub reads `paths`: the last pattern that fits decides."""
    taken = False
    for pattern in patterns:
        words = pattern.removeprefix("!").replace("**/", "*").replace("**", "*")
        if fnmatchcase(path, words):
            taken = not pattern.startswith("!")
    return taken


def test_only_what_changes_a_training_trains(project: Path) -> None:
    patterns = workflow(project, "train")[True]["push"]["paths"]
    files = tree(project)
    trains = {name for name in files if matches(name, patterns)}
    assert {"run.toml", "pyproject.toml", "src/tpu_training/loop.py"} <= trains
    for name in (*files, "docs/guide.md", "src/tpu_training/README.md", "README.ja.md"):
        if name.endswith(".md") or name.startswith((".github", "cloudbuild", "tests", "docs")):
            assert not matches(name, patterns), name
    assert all(name in files or "*" in name or name == "Dockerfile" for name in patterns)


@pytest.mark.parametrize("choice", raw()["_choices"]["ci"])
def test_nothing_of_the_other_system(oven: Oven, tmp_path: Path, choice: str) -> None:
    files = tree(oven.bake(tmp_path, ci=choice))
    places = {"both": {".github", "cloudbuild"}, "github": {".github"}}
    found = {name.split("/")[0] for name in files} & {".github", "cloudbuild"}
    assert found == places.get(choice, {"cloudbuild"})


def test_what_ops_needs_is_part_of_what_the_project_needs(project: Path) -> None:
    import tomllib

    settings = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    assert set(settings["dependency-groups"]["ops"]) <= set(settings["project"]["dependencies"])
    assert json.dumps(settings).count("matplotlib") == 2


@pytest.mark.parametrize(
    ("generation", "framework", "judged"),
    [
        ("v5e", "torch_xla", True),
        ("v4", "torch_xla", False),  # the compiler sees its chips otherwise than torch_xla
        ("v5e", "torch_tpu", False),
    ],
)
def test_a_step_is_judged_in_ci_and_before_it_rents_where_it_can_be(
    oven: Oven, tmp_path: Path, generation: str, framework: str, judged: bool
) -> None:
    made = oven.bake(tmp_path, generation=generation, framework=framework)
    assert ("preflight" in workflow(made, "ci")["jobs"]) is judged
    (script,) = (step["args"][-1] for step in build(made, "ci")["steps"])
    assert ("preflight" in script) is judged
    assert ("preflight" in workflow(made, "train")["jobs"]["provision"]["needs"]) is judged
    order = [step["id"] for step in build(made, "train")["steps"]]
    assert ("preflight" in order[: order.index("provision")]) is judged
    assert (made / ".github/actions/preflight").exists() is judged
    assert ("before_renting" in (made / "run.toml").read_text("utf-8")) is judged
