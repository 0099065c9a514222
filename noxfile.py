"""The template's sessions.

`nox -s demo` makes a project and trains it here; `nox -s tests` proves the template; `nox -l` lists
the rest.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]

ROOT = Path(__file__).parent
DEMO = ROOT / "build" / "demo"
PROJECT = "tpu-training"
OPS = "tests/rehearsal/ops"
OTHER_ANSWERS = ("ci=github", "ci=cloudbuild", "framework=torch_tpu")
IMAGE = "tests/rehearsal/image"
CLUSTER = ("tests/rehearsal/plane", "tests/rehearsal/kubelet")
ENDS = tuple(f"tests/rehearsal/kubelet/test_{name}.py" for name in ("training", "troubles"))
TAKES_WORDS = {"checkpoint", "gains", "preflight", "presets", "scan"}
ALONE = (
    *("-v", "-ra", "--rootdir=tests/rehearsal", "--confcutdir=tests/rehearsal"),
    *("-p", "no:cacheprovider"),
)


def install(session: nox.Session, *groups: str) -> None:
    chosen = [word for group in groups for word in ("--group", group)]
    session.install(*chosen)


def fresh(name: str) -> Path:
    """An empty folder under build/; environments that an earlier project had there are kept."""
    folder = ROOT / "build" / name
    for path in folder.glob("*/*"):
        if path.name != ".nox":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


def bake(session: nox.Session, folder: Path, *answers: str) -> Path:
    """A project made with these answers, and the default ones for the rest."""
    options = ("--no-input", "--overwrite-if-exists", "--output-dir", str(folder))
    session.run("cookiecutter", *options, str(ROOT), *answers, silent=True)
    return folder / PROJECT


def in_project(session: nox.Session, project: Path, *words: str) -> None:
    """A session of the project's own noxfile, in environments of its own."""
    with session.chdir(project):
        session.run("nox", *words, env={"NOXSESSION": None})


@nox.session
def demo(session: nox.Session) -> None:
    """Make a project with the default answers and train it here, on the CPU."""
    install(session, "bake")
    project = bake(session, DEMO)
    in_project(session, project, "-s", "train", "--", *session.posargs)
    session.log(f"the project is yours to look at: {project}")


@nox.session
def tests(session: nox.Session) -> None:
    """The questions, the answers and what comes out: `nox -s tests -- -k cruft`."""
    install(session, "bake", "tests")
    session.run("pytest", "--ignore", "tests/rehearsal", *session.posargs)


@nox.session
def project(session: nox.Session) -> None:
    """The generated project's own sessions: its lint and its tests."""
    install(session, "bake")
    made = bake(session, fresh(session.name))
    in_project(session, made, "-s", *(session.posargs or ("lint", "tests")))


@nox.session
def answers(session: nox.Session) -> None:
    """The same for the answers that leave something out: `nox -s answers -- ci=github`."""
    install(session, "bake")
    for answer in session.posargs or OTHER_ANSWERS:
        made = bake(session, fresh(session.name), answer)
        in_project(session, made, "-s", "lint", "tests")


@nox.session
@nox.parametrize("resolution", ["lowest-direct", "highest"])
def versions(session: nox.Session, resolution: str) -> None:
    """The generated project's tests with the oldest and the newest versions that it admits."""
    install(session, "bake")
    made = bake(session, fresh("versions"))
    wanted = ("--editable", str(made), "--group", f"{made / 'pyproject.toml'}:tests")
    session.install(*wanted, "--resolution", resolution)
    with session.chdir(made):
        session.run("pytest", *session.posargs)


def project_python(session: nox.Session, *groups: str) -> tuple[str, dict[str, str]]:
    """The Python of a generated project's own environment, with `groups` of ours beside it, and
    what names the project."""
    install(session, "bake")
    made = bake(session, fresh(session.name))
    in_project(session, made, "-s", "tests", "--install-only")
    python = str(made / ".nox" / "tests" / "bin" / "python")
    chosen = [word for group in groups for word in ("--group", group)]
    if chosen:
        session.run("uv", "pip", "install", "--python", python, *chosen)
    return python, named(made)


@nox.session
def rehearsal(session: nox.Session) -> None:
    """Kills, a simulated slice and a real GCS emulator around a generated project.

    Every process at five random moments: `nox -s rehearsal -- --kills 5`.
    """
    others = [word for folder in (OPS, IMAGE, *CLUSTER) for word in ("--ignore", folder)]
    rehearse(session, "tests/rehearsal", *others)


@nox.session
def kills(session: nox.Session) -> None:
    """Every process killed at five random moments: hours."""
    rehearse(session, "tests/rehearsal/test_kill.py", "--kills", "5")


@nox.session
def ops(session: nox.Session) -> None:
    """A generated project's `ops` against a simulated Google Cloud, killed and refused at every
    call: `nox -s ops -- -k sweep`."""
    rehearse(session, OPS, "--numprocesses", "auto")


@nox.session
def cluster(session: nox.Session) -> None:
    """A real Kubernetes with KubeRay's operator, and a run's whole life in its pods: as root, with
    Go, which builds them once (a quarter of an hour): `nox -s cluster -- -k life`."""
    rehearse(session, *CLUSTER, *(word for file in ENDS for word in ("--ignore", file)))


@nox.session
def ends(session: nox.Session) -> None:
    """All that may happen to a run in that Kubernetes, one thing after another: an hour.
    `nox -s ends -- -k spot`."""
    rehearse(session, *ENDS)


def rehearse(session: nox.Session, *words: str) -> None:
    python, where = project_python(session, "rehearsal")
    command = (python, "-m", "pytest", *ALONE, *words, *session.posargs)
    session.run(*command, env=where, external=True)


@nox.session
def image(session: nox.Session) -> None:
    """The Dockerfile of a generated project, built with no container engine and looked into; as
    root, with buildah and debootstrap from Debian's or Ubuntu's packages."""
    install(session, "bake", "image")
    made = bake(session, fresh(session.name))
    session.run("pytest", *ALONE, "--capture=no", IMAGE, *session.posargs, env=named(made))


def named(project: Path) -> dict[str, str]:
    """The variables that tell a test or a script where the project lies."""
    return {"PROJECT": str(project), "PACKAGE": PROJECT.replace("-", "_")}


@nox.session
def bench(session: nox.Session) -> None:
    """Measurements, side by side in one run: `nox -s bench -- loop`; words behind the names are for
    the measurements: `nox -s bench -- presets 1b v5e:2x2`."""
    names = [path.stem for path in sorted((ROOT / "bench").glob("*.py")) if path.stem != "common"]
    chosen = list(itertools.takewhile(names.__contains__, session.posargs))
    words = session.posargs[len(chosen) :]
    asked = chosen and words == ["--help"]
    if words and not asked and not (chosen and TAKES_WORDS.issuperset(chosen)):
        session.error(f"no measurement {words[0]}; choose of {', '.join(names)}")
    python, where = project_python(session)
    for name in chosen or names:
        script = str(ROOT / "bench" / f"{name}.py")
        session.run(python, script, *words, env=where, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and types of the template's own code; the project's are linted by `project`."""
    install(session, "bake", "tests", "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def workflows(session: nox.Session) -> None:
    """The workflows of both CI systems as they lie here and as every answer about CI makes them."""
    install(session, "bake", "workflows")
    folder, choices = fresh(session.name), cookiecutter_choices()
    places = [ROOT, ROOT / "<<cookiecutter.project>>"]
    for ci, mode in itertools.product(choices["ci"], choices["cluster_mode"]):
        made = bake(session, folder / f"{ci}-{mode}", f"ci={ci}", f"cluster_mode={mode}")
        places.append(made)
    for place in places:
        session.log(f"looking at {place}")
        for command in workflow_linters(place):
            session.run(*command)


def cookiecutter_choices() -> dict[str, list[str]]:
    raw = json.loads((ROOT / "cookiecutter.json").read_text("utf-8"))
    return dict(raw["_choices"])


def workflow_linters(place: Path) -> list[tuple[str, ...]]:
    """What reads the workflow files of this folder, and the Dockerfile that they build; actionlint
    calls shellcheck itself."""
    workflows = names(place, ".github/workflows/*.yml")
    schemas = {
        "vendor.github-workflows": workflows,
        "custom.github-workflows-require-timeout": workflows,
        "vendor.github-actions": names(place, ".github/actions/*/action.yml"),
        "vendor.dependabot": names(place, ".github/dependabot.yml"),
        "vendor.cloudbuild": names(place, "cloudbuild/*.yaml"),
    }
    check = ("check-jsonschema", "--no-cache", "--builtin-schema")
    commands = [(*check, schema, *files) for schema, files in schemas.items() if files]
    if workflows:
        commands.append(("actionlint", *workflows))
        rules = [word for file in names(place, ".github/zizmor.yml") for word in ("--config", file)]
        commands.append(("zizmor", "--offline", "--no-progress", *rules, str(place / ".github")))
    commands += [("hadolint", file) for file in names(place, "Dockerfile")]
    scripts = names(place, "cloudbuild/*.sh")
    return [*commands, ("shellcheck", *scripts)] if scripts else commands


def names(place: Path, pattern: str) -> list[str]:
    return [str(file) for file in sorted(place.glob(pattern))]


@nox.session(name="bake")
def bake_session(session: nox.Session) -> None:
    """A project in build/, to look at: `nox -s bake -- generation=v6e topology=4x4`."""
    install(session, "bake")
    folder = fresh("bake")
    bake(session, folder, *session.posargs)
    session.log(f"made in {folder}")


@nox.session
def cloud(session: nox.Session) -> None:
    """A real run on Google Cloud; it costs money: `nox -s cloud -- gcp_project=ID bucket=NAME`."""
    made, ops = on_google_cloud(session)
    session.run("python", "tools/cloud_run.py", str(made), ops)


@nox.session
def sweep(session: nox.Session) -> None:
    """Removes what `cloud` left behind, with the same answers."""
    made, ops = on_google_cloud(session)
    with session.chdir(made):
        session.run(ops, "sweep", "--yes", external=True)


def on_google_cloud(session: nox.Session) -> tuple[Path, str]:
    """A project with the answers given here or in ANSWERS, and the `ops` installed for it."""
    given = session.posargs or os.environ.get("ANSWERS", "").split()
    if not given:
        session.skip("no answers are given: it needs a Google Cloud project and a bucket")
    install(session, "bake")
    made = bake(session, fresh("cloud"), *given)
    in_project(session, made, "-s", "ops", "--install-only")
    return made, str(made / ".nox" / "ops" / "bin" / "ops")


@nox.session
def release(session: nox.Session) -> None:
    """The notes of a tag, where all is ready for it: `nox -s release -- v1.2.0`."""
    session.run("python", "tools/release.py", *session.posargs)


@nox.session
def bump(session: nox.Session) -> None:
    """Renew the exact versions that a project is made with."""
    install(session, "bake")
    session.install("uv")
    session.run("python", "tools/constraints.py")
