"""The project's sessions: `nox -s train`, `nox -s tests`, `nox -s lint`."""

from __future__ import annotations

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "tests"]


def install(session: nox.Session, *groups: str) -> None:
    """The project as tested, with torch's CPU build where that can be had: the default one carries
    gigabytes of CUDA libraries that nothing here uses."""
    chosen = [word for group in groups for word in ("--group", group)]
    packages = ("--editable", ".", *chosen, "--constraint", "constraints.txt")
    try:
        session.install(*packages, "--torch-backend", "cpu", env={"UV_HTTP_RETRIES": "0"})
    except CommandFailed:
        session.log("PyTorch's CPU index is out of reach: taking the larger default build")
        session.install(*packages)


@nox.session
def train(session: nox.Session) -> None:
    """Train here, on the CPU: `nox -s train -- --set train.steps=500`."""
    install(session)
    session.run("train", "--local", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """The project's tests: `nox -s tests -- -k checkpoint`."""
    install(session, "tests")
    session.run("pytest", *session.posargs)


@nox.session
def ops(session: nox.Session) -> None:
    """The command `ops` without what only training needs: `nox -s ops -- plan`."""
    group = ("--group", "ops", "--constraint", "constraints.txt")
    session.install(*group)
    session.install("--no-deps", "--editable", ".")
    session.run("ops", *session.posargs)


<% if cookiecutter.framework == "torch_xla" %>
@nox.session
def preflight(session: nox.Session) -> None:
    """Compile the step with the TPU's own compiler, without a TPU: `nox -s preflight -- --help`."""
    install(session)
    session.run("ops", "preflight", *session.posargs)


<% endif %>
@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, and k8s/ against run.toml."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("ops", "render", "--check")
