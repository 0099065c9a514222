"""Prepare, when something is wrong: one clear fault, and the place as it was before."""

from __future__ import annotations

import gzip
import io
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_fixtures import Faults, contents, faulty_disk, local_ray
from rich.console import Console

from << cookiecutter.package >>.data import Index, Prepared, prepare
from << cookiecutter.package >>.errors import Failure, InputError, Refused

MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    with faulty_disk(tmp_path_factory.mktemp("control")) as faults, local_ray():
        yield faults


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Five units of work, good ones."""
    (tmp_path / "corpus").mkdir()
    for number in range(5):
        (tmp_path / "corpus" / f"{number}.txt").write_text(f"{number} line\n" * (MIB // 7 + 1))
    return tmp_path / "corpus"


def run(source: str | Path, root: Path, **settings: Any) -> Index:
    return prepare(str(source), str(root), console=Console(file=io.StringIO()), **settings)


def write_parquet(path: Path, cut: int | None = None) -> None:
    pq.write_table(pa.table({"body": ["text"] * 50}), path)
    path.write_bytes(path.read_bytes()[:cut])


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "9.txt": (lambda path: path.write_bytes(b"fine\xff"), "byte 4 (0xff) is not UTF-8"),
    "9.txt.gz": (lambda path: path.write_bytes(gzip.compress(b"a" * 99)[:-3]), "truncated"),
    "9.jsonl": (lambda path: path.write_text('{"text": "a"}\n{"text": '), "not JSON"),
    "9.json": (lambda path: path.write_text('{"body": "a"}'), "no field 'text'"),
    "8.parquet": (lambda path: write_parquet(path, -9), "truncated"),
    "9.parquet": (write_parquet, "no field 'text'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_broken_file_among_good_ones(corpus: Path, tmp_path: Path, name: str) -> None:
    write, what = BROKEN[name]
    write(corpus / name)
    with pytest.raises(InputError) as caught:
        run(corpus, tmp_path / "new" / "deep" / "s")
    assert what in caught.value.what
    assert caught.value.where.startswith(str(corpus / name))
    assert caught.value.remedy
    assert not (tmp_path / "new").exists()


def test_of_several_faults_one_is_told(corpus: Path, tmp_path: Path) -> None:
    for number in range(5):
        (corpus / f"{number}.txt").write_bytes(b"a" * MIB + b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        run(corpus, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_fault_ends_the_other_units_soon(corpus: Path, tmp_path: Path) -> None:
    permits: list[int] = []
    (corpus / "0.txt").write_bytes(b"\xff" * MIB)
    with pytest.raises(InputError, match="not UTF-8"):
        run(
            corpus,
            tmp_path / "s",
            report=lambda state: permits.append(len(list(tmp_path.glob("s/preparing-*")))),
        )
    # From the fault on there was no permit to write, while the others were waited for.
    assert permits[-1] == 0


def test_a_fault_after_a_killed_run_leaves_nothing_of_either(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "tokens-00000-000-0123456789ab.bin").write_bytes(b"killed")
    (tmp_path / "s" / "preparing-0123456789abcdef").write_bytes(b"killed")
    (tmp_path / "s" / "tokens-of-mine.bin").write_bytes(b"mine")
    (corpus / "4.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        run(corpus, tmp_path / "s")
    assert contents(tmp_path / "s") == {"tokens-of-mine.bin": b"mine"}


def test_no_input_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in ("none", "empty", "*.txt"):
        with pytest.raises(InputError, match="no input file") as caught:
            run(tmp_path / source, tmp_path / "s")
        assert caught.value.where == str(tmp_path / source)
    assert list(tmp_path.iterdir()) == [tmp_path / "empty"]


def test_input_without_text_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b.jsonl"):
        (tmp_path / "in" / name).write_bytes(b"")
    with pytest.raises(InputError, match="holds no text"):
        run(tmp_path / "in", tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("inside", ["", "shards"])
def test_shards_cannot_lie_inside_of_the_input(corpus: Path, inside: str) -> None:
    before = contents(corpus)
    with pytest.raises(InputError, match="inside of the input"):
        run(corpus, corpus / inside)
    assert contents(corpus) == before


def test_old_data_survives_a_fault(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    run(tmp_path / "old.txt", tmp_path / "s")
    before = contents(tmp_path / "s")
    (corpus / "4.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        run(corpus, tmp_path / "s", overwrite=True)
    assert contents(tmp_path / "s") == before


def test_a_broken_index_is_replaced_only_with_overwrite(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "s")
    whole = contents(tmp_path / "s")
    (tmp_path / "s" / "index.json").write_bytes(whole["index.json"][:-20])
    broken = contents(tmp_path / "s")
    with pytest.raises(InputError, match="broken or of another program") as caught:
        run(corpus, tmp_path / "s")
    assert "--overwrite" in caught.value.remedy
    assert contents(tmp_path / "s") == broken
    (corpus / "5.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        run(corpus, tmp_path / "s", overwrite=True)
    assert contents(tmp_path / "s") == broken
    (corpus / "5.txt").unlink()
    run(corpus, tmp_path / "s", overwrite=True)
    assert contents(tmp_path / "s") == whole


def test_a_file_where_a_directory_should_be(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "s"):
        with pytest.raises(Refused, match="cannot") as caught:
            run(corpus, root)
        assert "file" in caught.value.where and "a file stands where" in caught.value.remedy
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_that_cannot_be_written(corpus: Path) -> None:
    with pytest.raises(Refused, match="cannot write"):
        run(corpus, Path("/proc/shards"))


@pytest.mark.parametrize("old", [False, True])
def test_a_full_disk_at_any_write(tmp_path: Path, faults: Faults, old: bool) -> None:
    source = tmp_path / "in.txt"
    source.write_text("text " * 9)
    run(source, tmp_path / "fresh", shard_tokens=25)
    root = tmp_path / "s"
    if old:
        (tmp_path / "old.txt").write_text("old")
        run(tmp_path / "old.txt", root)
    before = contents(root)
    for write in range(1, 100):
        faults.arm(root, write)
        try:
            run(source, root, shard_tokens=25, overwrite=old)
        except Refused as refused:
            assert "No space left" in refused.what and "free some space" in refused.remedy
            assert str(root) in refused.where
            assert contents(root) == before and root.exists() == old
        else:
            break
        finally:
            faults.disarm()
    assert contents(root) == contents(tmp_path / "fresh")
    # Four files (permit, two shards, index): open, write, fsync, rename.
    assert write > 4 * 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MiB."""
    (tmp_path / "disk").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path / "disk")]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"only root may mount a small disk: {mounted.stderr.decode().strip()}")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_a_real_full_disk(corpus: Path, small_disk: Path) -> None:
    with pytest.raises(Refused, match="No space left"):
        run(corpus, small_disk / "s")
    assert list(small_disk.iterdir()) == []


def test_a_run_whose_place_is_taken_over_writes_nothing_more(tmp_path: Path) -> None:
    class TakeOver(BaseHTTPRequestHandler):
        """Another run comes while a worker of this one reads its input."""

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()

        def do_GET(self) -> None:
            for permit in (tmp_path / "s").glob("preparing-*"):
                permit.unlink()
            self.do_HEAD()
            self.wfile.write(b"text")

        def log_message(self, *parts: object) -> None:
            """Keeps the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), TakeOver)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(Refused, match="another run of prepare"):
            run(f"http://127.0.0.1:{server.server_port}/in.txt", tmp_path / "s")
    finally:
        server.shutdown()
        server.server_close()
    assert not (tmp_path / "s").exists()


def test_shards_that_are_not_seen_from_here(corpus: Path, tmp_path: Path) -> None:
    def lose_one(state: Prepared) -> None:
        if state.input_bytes == state.total_bytes:
            next((tmp_path / "s").glob("tokens-*")).unlink()

    with pytest.raises(Refused, match="is missing after it was written") as caught:
        run(corpus, tmp_path / "s", report=lose_one)
    assert "gs://" in caught.value.remedy
    assert not (tmp_path / "s").exists()


def test_every_fault_crosses_from_worker_to_driver_whole(corpus: Path, tmp_path: Path) -> None:
    (corpus / "9.txt").write_bytes(b"\xff")
    with pytest.raises(Failure) as caught:
        run(corpus, tmp_path / "s")
    assert type(caught.value) is InputError and caught.value.exit_code == 2
    assert str(caught.value).count("\n") == 2


def test_settings_that_make_no_sense(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a shard of 0 tokens"):
        run(corpus, tmp_path / "s", shard_tokens=0)
    with pytest.raises(InputError, match="no such tokenizer file"):
        run(corpus, tmp_path / "s", tokenizer="none.json")
    assert not (tmp_path / "s").exists()
