"""Checkpoints through the real gcsfs and a real server: killed at every request, refused, read."""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from rehearsal.gcs import Emulator, applied, emulator
from rehearsal.running import PACKAGE

SPAWN = multiprocessing.get_context("spawn")
KILLED = -signal.SIGKILL


class Alone:
    rank, world = 0, 1

    def agree(self, ok: bool) -> bool:
        return ok

    def share(self, value: Any) -> Any:
        return value


@pytest.fixture(scope="module")
def server() -> Iterator[Emulator]:
    with emulator() as running, applied(running.environment):
        yield running


def tensors_at(step: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(step)
    large = torch.randn(3000, 200, generator=random)  # 2.4 MB: three requests to an upload
    return {"large": large, "half": large[:7, :5].to(torch.bfloat16), "step": torch.tensor(step)}


def open_store(root: str) -> Any:
    checkpoint = importlib.import_module(f"{PACKAGE}.checkpoint")
    return checkpoint.CheckpointStore(root, keep=2, group=Alone(), identity={"width": 200})


def save(store: Any, step: int) -> None:
    entry = importlib.import_module(f"{PACKAGE}.checkpoint").Entry
    state = {name: entry.whole(data) for name, data in tensors_at(step).items()}
    store.save(step, state, {"tokens": step * 10})


def assert_holds(checkpoint: Any, step: int) -> None:
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.progress) == (step, {"tokens": step * 10})
    for name, data in tensors_at(step).items():
        assert torch.equal(checkpoint.read(name), data), name


def steps_in(root: str) -> tuple[list[int], list[str]]:
    """The steps that have a manifest, and the folders that have none."""
    fs = importlib.import_module("fsspec").filesystem("gs", use_listings_cache=False)
    found = [path.split("/")[-2:] for path in fs.find(root)]
    whole = {folder for folder, name in found if name == "checkpoint.json"}
    return sorted(int(folder.split("-")[1]) for folder in whole), [
        folder for folder, _ in found if folder not in whole
    ]


def _forked(work: Callable[..., None], *args: object) -> int:
    """The exit code of a child that does the work."""
    child = os.fork()
    if child == 0:
        try:
            work(*args)
            os._exit(0)
        except BaseException:
            logging.exception("the child failed")
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _nursery(pipe: Connection) -> None:
    """Imports once and forks a child for each life; the threads of gcsfs start in the child."""
    for name in ("gcsfs", f"{PACKAGE}.checkpoint"):
        importlib.import_module(name)
    while (job := pipe.recv()) is not None:
        pipe.send(_forked(*job))


@pytest.fixture(scope="module")
def nursery(server: Emulator) -> Iterator[Callable[..., int]]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_nursery, args=(theirs,))
    process.start()

    def run(work: Callable[..., None], *args: object) -> int:
        ours.send((work, *args))
        return int(ours.recv())

    yield run
    ours.send(None)
    process.join()


def _die_at(fatal: int, moment: str) -> None:
    """From now on this process dies before, or after, the request of that number."""
    core: Any = importlib.import_module("gcsfs.core").GCSFileSystem
    request, count = core._request, iter(range(1, 10_000))

    async def counted(*args: Any, **kwargs: Any) -> Any:
        number = next(count)
        if number == fatal and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await request(*args, **kwargs)
        if number == fatal and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    core._request = counted


def _life(root: str, moment: str, fatal: int) -> None:
    remote: Any = importlib.import_module(f"{PACKAGE}.checkpoint.remote")
    remote.CHUNK = 2**20
    _die_at(fatal, moment)
    store = open_store(root)
    store.restore()
    for step in (2, 3):
        save(store, step)
    store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_request(nursery: Callable[..., int], moment: str) -> None:
    for fatal in range(1, 1000):
        root = f"gs://rehearsal/killed-{moment}/{fatal}"
        store = open_store(root)
        store.restore()
        save(store, 1)
        store.close()
        code = nursery(_life, root, moment, fatal)
        assert code in (0, KILLED)
        newest = steps_in(root)[0][-1]
        store = open_store(root)
        assert_holds(store.restore(), newest)
        save(store, newest + 1)
        store.close()
        assert steps_in(root) == ([newest, newest + 1], [])
        if code == 0:
            break
    assert newest == 3
    assert fatal > 20, "listings, three uploads and a removal for each of two saves"


def test_a_new_process_goes_on(nursery: Callable[..., int]) -> None:
    root = "gs://rehearsal/restart"
    assert nursery(_life, root, "before", 0) == 0
    assert_holds(open_store(root).restore(), 3)
    assert steps_in(root) == ([2, 3], [])


def test_probe(server: Emulator) -> None:
    open_store("gs://rehearsal/probed").probe()
    assert steps_in("gs://rehearsal/probed") == ([], [])


def test_a_missing_bucket(server: Emulator) -> None:
    refused = importlib.import_module(f"{PACKAGE}.errors").Refused
    with pytest.raises(refused, match="is not there"):
        open_store("gs://no-such-bucket/runs").probe()
    store = open_store("gs://no-such-bucket/runs")
    assert store.restore() is None
    save(store, 1)
    with pytest.raises(refused, match="is not there"):
        store.close()


class Forbidding(BaseHTTPRequestHandler):
    """Answers as Google Cloud Storage does to an account without rights."""

    def do_POST(self) -> None:
        text = "does not have storage.objects.create access to the Google Cloud Storage object."
        body = json.dumps({"error": {"code": 403, "message": text}}).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def log_message(self, *args: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def forbidding(server: Emulator) -> Iterator[None]:
    front = ThreadingHTTPServer(("127.0.0.1", 0), Forbidding)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{front.server_port}"
    with applied({**server.environment, "STORAGE_EMULATOR_HOST": url}):
        yield
    front.shutdown()
    front.server_close()


@pytest.mark.usefixtures("forbidding")
def test_an_account_without_rights() -> None:
    refused = importlib.import_module(f"{PACKAGE}.errors").Refused
    with pytest.raises(refused, match="no right"):
        open_store("gs://rehearsal/forbidden").probe()
    with pytest.raises(refused, match="no right"):
        open_store("gs://rehearsal/forbidden").restore()


def test_both_clients_see_the_same_objects(server: Emulator) -> None:
    storage = importlib.import_module("google.cloud.storage")
    credentials = importlib.import_module("google.auth.credentials").AnonymousCredentials()
    client = storage.Client(project="rehearsal", credentials=credentials)
    client.bucket("rehearsal").blob("seen/by-both").upload_from_string(b"here")
    fs = importlib.import_module("fsspec").filesystem("gs", use_listings_cache=False)
    assert fs.cat_file("rehearsal/seen/by-both") == b"here"
    fs.rm_file("rehearsal/seen/by-both")
    assert list(client.list_blobs("rehearsal", prefix="seen/")) == []


def test_the_server_ends_with_the_block() -> None:
    with emulator("other") as running:
        assert Path(f"/proc/{running.pid}").exists()
    assert not Path(f"/proc/{running.pid}").exists()
