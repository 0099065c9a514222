"""What `ops bootstrap` would run and what it leaves alone; gcloud is a small pretence here."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ops_fixtures import RUN_TOML, settings
from typer.testing import CliRunner

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import Failure, InputError, NotFound, Refused
from << cookiecutter.package >>.ops.accounts import repository
from << cookiecutter.package >>.ops.bootstrap import Bootstrap, Done, Step, commands
from << cookiecutter.package >>.ops.bootstrap_rights import OPS_PERMISSIONS
from << cookiecutter.package >>.ops.bootstrap_steps import LIFECYCLE, steps, wanted
from << cookiecutter.package >>.ops.cli import app
from << cookiecutter.package >>.ops.gcloud import Gcloud, Words

REGISTRY = "us-central1-docker.pkg.dev/my-project/demo"


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Project:
    """A Google Cloud project as gcloud shows it. `die_at` kills the caller at that command."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}
        self.changes: list[Words] = []
        self.die_at = -1
        self.refuses = ""

    def run(self, words: Words) -> tuple[int, str, str]:
        if words[-2] == "--format=json":
            return self._show(words)
        if self.refuses and self.refuses in shlex.join(words):
            return 1, "", "ERROR: (gcloud) PERMISSION_DENIED: iam.roles.create is needed"
        if len(self.changes) == self.die_at:
            raise KeyboardInterrupt
        self.changes.append(words)
        self._change(words)
        return 0, "", ""

    def _show(self, words: Words) -> tuple[int, str, str]:
        if words[1:3] == ("projects", "describe"):
            return 0, json.dumps({"projectNumber": "123"}), ""
        name = self._name(words)
        if name in self.things:
            return 0, json.dumps(self.things[name]), ""
        return 1, "", "ERROR: (gcloud) NOT_FOUND: there is no such thing"

    def _change(self, words: Words) -> None:
        name = self._name(words)
        if "add-iam-policy-binding" in words:
            given = dict(word.split("=", 1) for word in words if "=" in word)
            bound = {"role": given["--role"], "members": [given["--member"]]}
            self.things.setdefault(name, {"bindings": []})["bindings"].append(bound)
        elif words[1] == "services":
            names = [word for word in words if word.endswith(".googleapis.com")]
            self.things[name] = [{"config": {"name": one}} for one in names]
        else:
            self.things[name] = self._made(words)

    def _made(self, words: Words) -> dict[str, Any]:
        flags = dict(word.split("=", 1) for word in words if "=" in word)
        return {
            "status": "RUNNING",
            "state": "ACTIVE",
            "includedPermissions": list(OPS_PERMISSIONS),
            "attributeCondition": flags.get("--attribute-condition"),
            "httpTarget": {"uri": flags.get("--uri")},
            "autopilot": {"enabled": "create-auto" in words},
            "addonsConfig": {
                "rayOperatorConfig": {"enabled": True},
                "gcsFuseCsiDriverConfig": {"enabled": True},
            },
            "workloadIdentityConfig": {"workloadPool": "my-project.svc.id.goog"},
        }

    @staticmethod
    def _name(words: Words) -> str:
        """Of what a command is about: its group and the name in it; policies apart."""
        verbs = ("describe", "create", "create-auto", "create-oidc", "update", "http")
        plain = [word for word in words[1:] if not word.startswith("-")]
        if plain[0] == "services":
            return "services"
        if "account" in plain[1] and "@" not in plain[-1]:
            plain[-1] += "@my-project.iam.gserviceaccount.com"
        policy = any("iam-policy" in word for word in plain)
        kept = [word for word in plain if word not in verbs and "iam-policy" not in word]
        return " ".join([*kept, "policy"] if policy else kept)


class Pods:
    """The pods' Kubernetes service account."""

    def __init__(self) -> None:
        self.there = False

    def shown(self) -> bool:
        return self.there

    def made(self) -> None:
        self.there = True


@pytest.fixture
def project() -> Project:
    return Project()


def config(mode: str = "standard") -> Config:
    found = settings(registry=REGISTRY, cluster_mode=mode)
    return replace(found, run=replace(found.run, storage="gs://my-bucket/runs"))


def planned(mode: str = "standard") -> list[Step]:
    pods = Pods()
    return steps(config(mode), "me/training", "clean-up", pods.shown, pods.made)


def bootstrap(project: Project, todo: list[Step]) -> list[Done]:
    clock = Clock()
    gcloud = Gcloud(clock, lambda text: None, project.run)
    return Bootstrap(gcloud, clock, lambda text: None, "my-project").run(todo)


@pytest.mark.parametrize("mode", ["standard", "autopilot"])
def test_a_second_run_changes_nothing(project: Project, mode: str) -> None:
    todo = planned(mode)
    assert "there" not in {done.outcome for done in bootstrap(project, todo)}
    before = list(project.changes)
    assert {done.outcome for done in bootstrap(project, todo)} == {"there"}
    assert project.changes == before


def test_killed_at_any_command_it_goes_on() -> None:
    whole = Project()
    bootstrap(whole, planned())
    for at in range(len(whole.changes)):
        project, todo = Project(), planned()
        project.die_at = at
        with pytest.raises(KeyboardInterrupt):
            bootstrap(project, todo)
        project.die_at = -1
        bootstrap(project, todo)
        assert {done.outcome for done in bootstrap(project, todo)} == {"there"}
        assert set(project.things) == set(whole.things)


def test_what_is_printed_is_what_is_run(project: Project) -> None:
    todo = planned()
    bootstrap(project, todo)
    ask = "$(gcloud projects describe my-project --format='value(projectNumber)')"
    printed = [
        tuple(word.replace(ask, "123") for word in shlex.split(line))
        for line in commands(todo, "my-project")
    ]
    run = [words[:-1] for words in project.changes]
    ours = [step for step in todo if step.made]
    by_client = {line for step in ours for line in step.make}
    assert [words for words in printed if words not in by_client] == run


def test_a_cluster_that_comes_is_waited_for(project: Project) -> None:
    bootstrap(project, planned())
    name = next(name for name in project.things if name.startswith("container clusters"))
    whole = project.things[name]
    answers = iter([{"status": "PROVISIONING"}, {"status": "PROVISIONING"}])

    def run(words: Words, usual: Any = project.run) -> tuple[int, str, str]:
        if "clusters" in words and "describe" in words:
            return 0, json.dumps(next(answers, whole)), ""
        found: tuple[int, str, str] = usual(words)
        return found

    project.run = run  # type: ignore[method-assign]
    assert {done.outcome for done in bootstrap(project, planned())} == {"there", "made"}


@pytest.mark.parametrize(
    ("state", "sort"),
    [
        ({"status": "ERROR"}, NotFound),
        ({"status": "RUNNING", "autopilot": {"enabled": True}}, InputError),
    ],
)
def test_a_cluster_that_does_not_fit_is_told(
    project: Project, state: dict[str, Any], sort: type[Failure]
) -> None:
    bootstrap(project, planned())
    name = next(name for name in project.things if name.startswith("container clusters"))
    project.things[name] = state
    with pytest.raises(sort):
        bootstrap(project, planned())


def test_an_add_on_that_is_off_is_mended(project: Project) -> None:
    bootstrap(project, planned())
    name = next(name for name in project.things if name.startswith("container clusters"))
    project.things[name]["addonsConfig"] = {}
    done = {item.name: item.outcome for item in bootstrap(project, planned())}
    assert done["cluster"] == "mended"


def test_a_right_that_is_missing_ends_with_gcloud_s_own_words(project: Project) -> None:
    project.refuses = "iam roles create"
    with pytest.raises(Refused, match="iam.roles.create is needed"):
        bootstrap(project, planned())


def test_gcloud_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="gcloud is not installed"):
        Gcloud(Clock(), print).show(("gcloud", "services", "list"))


def test_what_was_just_made_may_not_be_known_everywhere() -> None:
    answers: Iterator[tuple[int, str, str]] = iter(
        [(1, "", "Service account x does not exist."), (0, "", "")]
    )
    clock = Clock()
    Gcloud(clock, lambda text: None, lambda words: next(answers)).make(("gcloud", "bind"))
    assert clock.now() > 0


def test_what_is_not_asked_for_is_skipped_with_a_word() -> None:
    todo = steps(config(), "", "")
    skipped = {step.name: step.skipped for step in todo if step.skipped}
    assert "--repository" in skipped["GitHub login"]
    assert "--cloudbuild-trigger" in skipped["nightly clean-up"]


def test_nothing_is_said_of_a_ci_that_the_project_does_not_have(tmp_path: Path) -> None:
    names = {"GitHub login", "nightly clean-up"}
    assert not names & {step.name for step in wanted(steps(config(), "", ""), tmp_path)}
    asked = [step.name for step in steps(config(), "me/training", "clean-up")]
    found = wanted(steps(config(), "me/training", "clean-up"), tmp_path)
    assert [step.name for step in found] == asked
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    assert "GitHub login" in {step.name for step in wanted(steps(config(), "", ""), tmp_path)}


@pytest.mark.parametrize("name", ["training", "me/", "me/tr'aining", "a b/c", "me/x/y"])
def test_a_repository_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="--repository"):
        steps(config(), name, "")


def test_it_ends_with_what_gives_the_repository_its_login() -> None:
    words = ["bootstrap", "--dry-run", "--config", str(RUN_TOML)]
    asked = CliRunner().invoke(app, [*words, "--repository", "me/training"]).stdout.splitlines()
    provider, account = (line for line in asked if line.startswith("gh variable set"))
    assert "WORKLOAD_IDENTITY_PROVIDER --repo me/training" in provider
    assert "/workloadIdentityPools/github-" in provider and provider.endswith("/providers/github")
    assert account.endswith(".iam.gserviceaccount.com")
    assert "gh variable" not in CliRunner().invoke(app, words).stdout


def test_a_registry_is_taken_apart() -> None:
    place = repository(f"{REGISTRY}/images")
    assert (place.location, place.project, place.name) == ("us-central1", "my-project", "demo")


def test_nobody_gets_more_than_it_needs() -> None:
    lines = commands(planned(), "my-project")
    granted = [line for line in lines if "projects add-iam-policy-binding" in line]
    for role in ("owner", "editor", "admin", "serviceAccountUser", "storage."):
        assert not [line for line in granted if f"roles/{role}" in line]
    assert not [line for line in lines if "keys create" in line]


def test_the_lifecycle_never_removes_what_lives() -> None:
    for rule in json.loads(LIFECYCLE.read_text())["rule"]:
        deletes = rule["action"]["type"] == "Delete"
        assert not deletes or rule["condition"]["isLive"] is False


def test_a_bucket_that_is_there_stays_as_it_is(project: Project) -> None:
    project.things["storage buckets gs://my-bucket"] = {"name": "my-bucket"}
    bootstrap(project, planned())
    assert not [words for words in project.changes if words[2:4] == ("buckets", "create")]


def test_a_dry_run_prints_commands_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(app, ["bootstrap", "--dry-run", "--config", str(RUN_TOML)])
    assert done.exit_code == 0
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"gcloud", "kubectl"}
