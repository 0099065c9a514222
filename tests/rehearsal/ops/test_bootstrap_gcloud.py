"""The real gcloud takes every command that `ops bootstrap` runs or prints. No network: each one
ends at a server of this machine that refuses all. Slow: gcloud takes seconds a command."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PACKAGE = os.environ["PACKAGE"]
SERVICES = "ARTIFACTREGISTRY CLOUDRESOURCEMANAGER CLOUDSCHEDULER COMPUTE CONTAINER IAM SERVICEUSAGE"
PATHS = {"COMPUTE": "compute/v1/", "STORAGE": "storage/v1/"}
SAID = "nothing is done here"
LONGEST_SECONDS = 120

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


def part(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def commands(mode: str, trigger: str, repository: str) -> list[tuple[str, ...]]:
    """Every gcloud command of every step: those that look, make and mend."""
    file = Path(os.environ["PROJECT"]) / "run.toml"
    words = [f"cloud.cluster_mode={mode}", "run.storage=gs://my-bucket/runs"]
    steps = part("ops.bootstrap_steps").steps(
        part("settings").load(file, words), repository, trigger
    )
    shell = part("ops.bootstrap").shell
    every = [
        shell(words, "my-gcp-project")
        for step in steps
        for words in ((*step.look, "--format=json"), *step.make, *step.mend)
    ]
    assert set(part("ops.bootstrap").commands(steps, "my-gcp-project")) <= set(every)
    lines = dict.fromkeys(line for line in every if line.startswith("gcloud"))
    return [tuple(shlex.split(line)) for line in lines]


class Nobody(BaseHTTPRequestHandler):
    """Refuses whatever it is asked; a closed port would be asked again for minutes."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({"error": {"code": 400, "message": SAID, "status": "INVALID_ARGUMENT"}})
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""


@pytest.fixture
def nobody(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Variables by which gcloud asks a server of this machine that refuses everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Nobody) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        asked = {
            f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}": url + PATHS.get(name, "")
            for name in (*SERVICES.split(), "STORAGE")
        }
        own = {
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        }
        yield {**os.environ, **asked, **own}
        server.shutdown()


def refused(words: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Empty where the command got as far as the network; else what gcloud said."""
    done = subprocess.run(
        [*words, "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    understood = done.returncode == 1 and SAID in done.stderr
    return "" if understood else f"{shlex.join(words)}: exit {done.returncode}: {done.stderr}"


def test_the_proof_sees_a_wrong_flag(nobody: Mapping[str, str]) -> None:
    assert "unrecognized" in refused(("gcloud", "services", "enable", "x", "--purple"), nobody)


@pytest.mark.parametrize("mode", ["standard", "autopilot"])
def test_gcloud_takes_every_command(mode: str, nobody: Mapping[str, str]) -> None:
    every = commands(mode, "clean-up", "owner/repository")
    if mode == "autopilot":
        every = [words for words in every if words[1:3] == ("container", "clusters")]
    faults = [fault for words in every if (fault := refused(words, nobody))]
    assert not faults, "\n".join(faults)
