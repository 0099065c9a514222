"""Prepare: the tokens in the shards are those of the input, in order, on any cluster."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_fixtures import contents, faulty_disk, local_ray
from rich.console import Console

from << cookiecutter.package >>.data import Index, Prepared, TokenBatches, prepare, read_index
from << cookiecutter.package >>.errors import InputError

END = 256


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with faulty_disk(tmp_path_factory.mktemp("control")), local_ray():
        yield


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """3 MiB in 60 files of three directories: several units of work."""
    random = np.random.default_rng(0)
    for number in range(60):
        path = tmp_path / "corpus" / f"part{number % 3}" / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        letters = random.choice(list("abcdef \n☕é"), size=int(random.integers(1, 90_000)))
        path.write_text("".join(letters))
    return tmp_path / "corpus"


def tokens(root: Path) -> list[int]:
    """The stream in the shards, read without the package."""
    shards = json.loads((root / "index.json").read_text())["shards"]
    return [int(t) for each in shards for t in np.fromfile(root / each["name"], "<u2")]


def documents(root: Path) -> list[str]:
    """The documents in the shards, decoded without the package."""
    stream = tokens(root)
    assert stream[-1] == END
    found: list[list[int]] = [[]]
    for token in stream:
        found.append([]) if token == END else found[-1].append(token)
    return [bytes(document).decode() for document in found[:-1]]


def run(source: str | Path, root: Path, **settings: Any) -> Index:
    return prepare(str(source), str(root), **{"console": Console(file=io.StringIO())} | settings)


def test_every_file_is_one_document_in_the_order_of_paths(corpus: Path, tmp_path: Path) -> None:
    index = run(corpus, tmp_path / "s")
    expected = [path.read_text() for path in sorted(corpus.rglob("*.txt"))]
    assert documents(tmp_path / "s") == expected
    assert index == read_index(str(tmp_path / "s"))
    assert (index.documents, index.tokens) == (60, sum(len(t.encode()) + 1 for t in expected))
    assert len(index.shards) > 2
    assert set(contents(tmp_path / "s")) == {"index.json", *(s.name for s in index.shards)}


def test_the_cluster_decides_nothing(corpus: Path, tmp_path: Path) -> None:
    import ray

    run(corpus, tmp_path / "a")
    context = ray.data.DataContext.get_current()
    before = context.execution_options, context.target_max_block_size
    context.execution_options = ray.data.ExecutionOptions(
        resource_limits=ray.data.ExecutionResources(cpu=1), preserve_order=True
    )
    context.target_max_block_size = 1
    try:
        run(corpus, tmp_path / "b")
    finally:
        context.execution_options, context.target_max_block_size = before
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_units_that_end_out_of_order_stay_in_order(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "a")
    module = importlib.import_module("<< cookiecutter.package >>.data.prepare")
    outcomes = module.outcomes
    monkeypatch.setattr(module, "outcomes", lambda *work: reversed(list(outcomes(*work))))
    run(corpus, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_shards_are_cut_at_the_same_tokens_whatever_their_size(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("abcdefghij" * 3)
    for size in (1, 7, 10, 31, 32, 1000):
        index = run(tmp_path / "text", tmp_path / f"{size}", shard_tokens=size)
        assert tokens(tmp_path / f"{size}") == [*b"abcdefghij" * 3, END]
        assert [shard.tokens for shard in index.shards[:-1]] == [size] * (len(index.shards) - 1)
        assert 0 < index.shards[-1].tokens <= size


@pytest.mark.parametrize("size", [700_000, 2_000_000, 4_000_000])
def test_long_files_are_cut_without_loss(tmp_path: Path, size: int) -> None:
    texts = [f"{number} " * 3000 for number in range(200)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    index = run(tmp_path / "in.jsonl", tmp_path / "s", shard_tokens=size)
    assert documents(tmp_path / "s") == texts
    assert len(index.shards) == -(-index.tokens // size)


def test_shards_of_a_long_file_are_told_before_its_end(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("word " * 2_000_000)
    states: list[Prepared] = []
    run(tmp_path / "in.txt", tmp_path / "s", shard_tokens=1_000_000, report=states.append)
    assert [state.shards for state in states] == [*range(1, 12), 11]
    assert [state.input_bytes for state in states] == [0] * 11 + [10_000_000]


def test_rows_of_json_lines_and_parquet_are_documents(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps({"n": n, "body": f"line {n} ☕"}) for n in range(5)]
    (folder / "a.jsonl").write_text("\ufeff" + "\n".join(lines[:2]) + "\n\n \n")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\r\n".join(lines[2:]).encode()))
    texts = ["row 0", None, "", "row 3 é"]
    pq.write_table(pa.table({"n": range(4), "body": texts}), folder / "c.parquet")
    dictionary = pa.array(["row 4", "row 4"]).dictionary_encode()
    pq.write_table(pa.table({"body": dictionary}), folder / "d.parquet")
    (folder / "e.txt.gz").write_bytes(gzip.compress(b"text\r\n"))
    (folder / "f.txt").write_bytes(b"")
    (folder / "g.jsonl").write_text('{"body": null}\n{"body": ""}\n{"body": "\\ud83e\\udd89"}')
    (folder / ".hidden.txt").write_bytes(b"\xff")
    (folder / ".git").mkdir()
    (folder / ".git" / "object").write_bytes(b"\xff")
    run(folder, tmp_path / "s", text_field="body")
    expected = [f"line {n} ☕" for n in range(5)] + ["row 0", "row 3 é", "row 4", "row 4"]
    assert documents(tmp_path / "s") == [*expected, "text\r\n", "🦉"]


@pytest.mark.parametrize("pattern", ["*/0*.txt", "part0", "part1/01.txt", "**/*5.txt"])
def test_a_glob_a_directory_or_a_file(corpus: Path, tmp_path: Path, pattern: str) -> None:
    run(corpus / pattern, tmp_path / "s")
    chosen = sorted(corpus.glob(pattern))
    files = sorted(chosen[0].rglob("*.txt")) if chosen[0].is_dir() else chosen
    assert documents(tmp_path / "s") == [path.read_text() for path in files]


def test_a_path_that_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "data[1]").mkdir()
    (tmp_path / "data[1]" / "a*.txt").write_text("found")
    shown = io.StringIO()
    run(tmp_path / "data[1]", tmp_path / "s[bold]", console=Console(file=shown))
    assert documents(tmp_path / "s[bold]") == ["found"]
    assert f"in {tmp_path}/s[bold]\n" in shown.getvalue()


def test_the_standard_library_trains(tmp_path: Path) -> None:
    index = run("stdlib", tmp_path / "s")
    first = documents(tmp_path / "s")[0]
    assert index.tokens > 5_000_000
    assert first == Path(sys.modules["__future__"].__file__ or "").read_text()
    with TokenBatches(str(tmp_path / "s"), sequence_length=256, batch_size=16, seed=0) as batches:
        assert all(batch.max() <= END for batch in batches.iterate(0, 20))


def test_a_tokenizer_of_a_file(corpus: Path, tmp_path: Path) -> None:
    from test_data_tokens import train_tokenizer

    made = train_tokenizer(tmp_path / "tokenizer.json")
    end = made.token_to_id("<|endoftext|>")
    index = run(corpus / "part0", tmp_path / "s", tokenizer=str(tmp_path / "tokenizer.json"))
    texts = [path.read_text() for path in sorted((corpus / "part0").iterdir())]
    expected = [id_ for text in texts for id_ in [*made.encode(text).ids, end]]
    assert tokens(tmp_path / "s") == expected
    assert (index.vocab_size, index.end_of_text) == (made.get_vocab_size(), end)


def forbidden() -> None:
    raise AssertionError("there is nothing to do")


def test_ray_is_wanted_only_for_what_can_be_done(corpus: Path, tmp_path: Path) -> None:
    calls: list[str] = []
    run(corpus, tmp_path / "s", before_ray=lambda: calls.append("connect"))
    assert calls == ["connect"]
    with pytest.raises(InputError, match="no input file"):
        run(tmp_path / "none", tmp_path / "t", before_ray=forbidden)
    with pytest.raises(AssertionError, match="nothing to do"):
        run(corpus, tmp_path / "t", before_ray=forbidden)
    assert not (tmp_path / "t").exists()


def test_again_with_the_same_settings_does_nothing(corpus: Path, tmp_path: Path) -> None:
    first = run(corpus, tmp_path / "s")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()}
    corpus.rename(tmp_path / "gone")  # not even the input is needed
    shown = io.StringIO()
    again = run(corpus, tmp_path / "s", console=Console(file=shown), before_ray=forbidden)
    assert again == first
    assert "nothing to do" in shown.getvalue()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()} == times


def test_other_settings_need_overwrite(corpus: Path, tmp_path: Path) -> None:
    run(corpus / "part0", tmp_path / "s")
    (tmp_path / "s" / "notes.md").write_text("mine")
    before = contents(tmp_path / "s")
    with pytest.raises(InputError, match="other settings") as caught:
        run(corpus / "part1", tmp_path / "s")
    for part in ("part0 there", "part1 now", "--overwrite"):
        assert part in str(caught.value)
    assert contents(tmp_path / "s") == before
    run(corpus / "part1", tmp_path / "s", overwrite=True)
    run(corpus / "part1", tmp_path / "fresh")
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh") | {"notes.md": b"mine"}


def test_overwrite_reads_an_input_again_that_has_changed(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "s")
    (corpus / "part0" / "00.txt").write_text("new")
    run(corpus, tmp_path / "s", overwrite=True)
    assert documents(tmp_path / "s")[0] == "new"


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_a_lost_shard_is_prepared_again(corpus: Path, tmp_path: Path, damage: str) -> None:
    index = run(corpus, tmp_path / "s")
    before = contents(tmp_path / "s")
    path = tmp_path / "s" / index.shards[1].name
    path.unlink() if damage == "remove" else path.write_bytes(b"")
    assert run(corpus, tmp_path / "s") == index
    assert contents(tmp_path / "s") == before


def test_progress_ends_at_the_whole_input(corpus: Path, tmp_path: Path) -> None:
    import ray

    states: list[Prepared] = []
    bars: set[bool] = set()
    context = ray.data.DataContext.get_current()

    def report(state: Prepared) -> None:
        states.append(state)
        bars.add(context.enable_progress_bars)

    assert context.enable_progress_bars
    index = run(corpus, tmp_path / "s", report=report)
    assert bars == {False}  # Ray Data's own would stand in the way
    assert context.enable_progress_bars
    assert len(states) > 2
    assert [state.input_bytes for state in states] == sorted(s.input_bytes for s in states)
    last = states[-1]
    assert last.input_bytes == last.total_bytes == index.source["bytes"]
    assert (last.tokens, last.documents, last.shards) == (index.tokens, 60, len(index.shards))


def test_plain_lines_without_a_terminal_and_one_bar_at_one(corpus: Path, tmp_path: Path) -> None:
    plain, terminal = io.StringIO(), io.StringIO()
    run(corpus, tmp_path / "a", console=Console(file=plain))
    run(corpus, tmp_path / "b", console=Console(file=terminal, width=200, force_terminal=True))
    lines = plain.getvalue().splitlines()
    assert all(line.startswith("prepare: ") for line in lines)
    assert "100% of the input" in lines[-2] and "done" in lines[-1]
    assert "\x1b" not in plain.getvalue()
    assert "━" in terminal.getvalue()


DRIVER = """
import os, signal, sys, ray
from << cookiecutter.package >>.data import prepare
ray.init(address=sys.argv[1], log_to_driver=False)
prepare(*sys.argv[2:], report=lambda state: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_killed_run_leaves_no_index_and_the_next_completes(corpus: Path, tmp_path: Path) -> None:
    import ray

    run(corpus, tmp_path / "fresh")
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-c", DRIVER, address, str(corpus), str(tmp_path / "s")]
    killed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL
    assert "Dataset" not in killed.stdout + killed.stderr  # messages of Ray Data's
    left = contents(tmp_path / "s")
    assert "index.json" not in left and len(left) >= 2  # a shard, and the permit to write
    with pytest.raises(InputError, match="there is no index"):
        read_index(str(tmp_path / "s"))
    # What a worker leaves that dies while it writes.
    (tmp_path / "s" / "tokens-00000-000-0123456789ab.bin.01234567.tmp").write_bytes(b"half")
    (tmp_path / "s" / "tokens-00009-000-0123456789ab.bin").write_bytes(b"of another input")
    run(corpus, tmp_path / "s")
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")


def test_an_interrupted_run_can_be_run_again(corpus: Path, tmp_path: Path) -> None:
    def interrupt(state: Prepared) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(corpus, tmp_path / "s", report=interrupt)
    assert not (tmp_path / "s" / "index.json").exists()
    run(corpus, tmp_path / "s")
    run(corpus, tmp_path / "fresh")
    assert contents(tmp_path / "s") == contents(tmp_path / "fresh")
