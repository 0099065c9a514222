"""Building the image of a run and putting it into the registry, by docker buildx."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request

from ..errors import Failure, NotFound, Refused
from .accounts import repository
from .desk import Desk
from .faults import text_of
from .manifests import IMAGE, TAG

BUILDER = "ops"
"""Docker's default builder can neither keep its cache in a registry nor attest what it built."""

Runner = Callable[[Sequence[str], str], int]


@dataclass(frozen=True)
class Built:
    """`image` is named by its digest."""

    image: str


def build(desk: Desk, folder: Path, run: Runner | None = None) -> Built:
    """Builds the Dockerfile in `folder` and pushes it. Raises Failure."""
    call, registry = run or _run, desk.config.cloud.registry
    name = f"{registry}/{IMAGE}"
    if not (folder / "Dockerfile").is_file():
        raise NotFound("there is no Dockerfile", str(folder), "run `ops build` in the project")
    _log_in(desk, call, f"{repository(registry).location}-docker.pkg.dev")
    if call(("docker", "buildx", "inspect", BUILDER), ""):
        _checked(call, ("docker", "buildx", "create", "--name", BUILDER))
    with tempfile.TemporaryDirectory(prefix="ops-") as place:
        told = Path(place) / "metadata.json"
        _checked(call, (*_command(name, desk.run), "--metadata-file", str(told), str(folder)))
        return Built(f"{name}@{_digest(told)}")


def _command(name: str, run: str) -> tuple[str, ...]:
    cache = f"type=registry,ref={name}:cache"
    return (
        *("docker", "buildx", "build", "--builder", BUILDER, "--push"),
        *("--tag", f"{name}:{run}", "--tag", f"{name}:{TAG}"),
        *("--cache-from", cache, "--cache-to", f"{cache},mode=max"),
        *("--provenance", "mode=max", "--sbom", "true"),
    )


def _log_in(desk: Desk, call: Runner, host: str) -> None:
    """With a token on standard input: on a command line every process could read it."""
    try:
        desk.credentials.refresh(Request())
    except GoogleAuthError as error:
        raise Refused(
            f"no token for the registry: {text_of(error)}",
            host,
            "log in: gcloud auth application-default login",
        ) from None
    words = ("docker", "login", "--username", "oauth2accesstoken", "--password-stdin", host)
    _checked(call, words, str(desk.credentials.token))


def _checked(call: Runner, words: Sequence[str], typed: str = "") -> None:
    if code := call(words, typed):
        raise Failure(
            f"`{' '.join(words[:3])}` ended with {code}",
            "docker",
            "read what it printed above; `ops doctor` looks at the registry and at its rights",
        )


def _digest(told: Path) -> str:
    try:
        return str(json.loads(told.read_text("utf-8"))["containerimage.digest"])
    except (OSError, ValueError, KeyError):
        raise Failure(
            "docker buildx did not tell the digest of what it built",
            "docker",
            "install buildx 0.10 or newer",
        ) from None


def _run(words: Sequence[str], typed: str) -> int:
    """What docker prints goes to stderr: stdout is for the result."""
    try:
        return subprocess.run(words, input=typed, stdout=2, text=True, check=False).returncode  # noqa: S603
    except OSError as error:
        raise NotFound(
            f"docker cannot be run: {error.strerror}", words[0], "install Docker with buildx"
        ) from None
