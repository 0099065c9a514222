"""Each Cloud Build file is taken by the real gcloud, which refuses a key that it does not know."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
PROJECT = "my-gcp-project"
BUILD = "google.devtools.cloudbuild.v1.BuildOperationMetadata"


class CloudBuild(BaseHTTPRequestHandler):
    """Takes a build and does nothing with it."""

    builds: list[dict[str, Any]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.builds.append(asked)
        name = f"projects/{PROJECT}/locations/global/builds/1"
        told = {"id": "1", "name": name, "projectId": PROJECT, "logUrl": "http://none"}
        metadata = {"@type": f"type.googleapis.com/{BUILD}", "build": {**asked, **told}}
        content = json.dumps({"name": "operations/1", "metadata": metadata}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """The test reads `builds`."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    handler = type("Handler", (CloudBuild,), {"builds": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def submit(server: HTTPServer, folder: Path, file: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD": f"http://127.0.0.1:{server.server_port}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
    }
    words = ("gcloud", "builds", "submit", "--no-source", "--async", "--config", str(file))
    return subprocess.run(words, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["ci", "train", "watch", "cleanup"])
def test_gcloud_takes_the_file_whole(server: HTTPServer, tmp_path: Path, name: str) -> None:
    file = Path(os.environ["PROJECT"]) / "cloudbuild" / f"{name}.yaml"
    done = submit(server, tmp_path, file)
    assert done.returncode == 0, done.stderr
    (build,) = server.RequestHandlerClass.builds  # type: ignore[attr-defined]
    wanted = yaml.safe_load(file.read_text())
    assert build["steps"] == wanted["steps"]
    assert {key: build.get(key) for key in wanted} == wanted


def test_gcloud_refuses_what_is_no_build(server: HTTPServer, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("steps: [{name: python, allowFailures: true}]\n")
    done = submit(server, tmp_path, file)
    assert done.returncode != 0 and "allowFailures" in done.stderr
