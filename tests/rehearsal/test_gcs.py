"""Checkpoints and metrics on gs://, through the clients that run in production."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import gcsfs
import pytest

from rehearsal.gcs import Emulator, applied, emulator
from rehearsal.running import Training, settings, train


@pytest.fixture(scope="module")
def bucket() -> Iterator[Emulator]:
    with emulator() as running, applied(running.environment):
        yield running


def files(bucket: Emulator, pattern: str) -> list[str]:
    filesystem = gcsfs.GCSFileSystem(
        endpoint_url=bucket.url, token="anon", use_listings_cache=False
    )
    return sorted(filesystem.glob(f"{bucket.bucket}/runs/**/{pattern}"))


def read(bucket: Emulator, pattern: str) -> str:
    filesystem = gcsfs.GCSFileSystem(
        endpoint_url=bucket.url, token="anon", use_listings_cache=False
    )
    return str(filesystem.cat(files(bucket, pattern)[0]).decode())


def test_a_run_on_a_bucket_is_killed_and_goes_on(
    tmp_path: Path, data: Path, bucket: Emulator
) -> None:
    words = settings(f"gs://{bucket.bucket}/runs", data)
    running = Training(tmp_path / "log", "--local", *words)
    running.until(lambda: len(files(bucket, "checkpoint.json")) >= 2)
    running.kill("driver")
    running.wait()
    running.clear()
    done = train(tmp_path / "log", "--local", *words)
    assert "24 of 24 steps done" in done
    steps = [json.loads(line)["step"] for line in read(bucket, "metrics.jsonl").splitlines()]
    assert steps == list(range(24))
    assert json.loads(read(bucket, "summary.json"))["went_on_from"] >= 8
    assert len(files(bucket, "checkpoint.json")) == 3


def test_a_missing_bucket_is_told_before_the_first_step(
    tmp_path: Path, data: Path, bucket: Emulator
) -> None:
    log = tmp_path / "log"
    running = Training(log, "--local", "--in-process", *settings("gs://no-such-bucket/runs", data))
    assert running.wait() == 4, log.read_text()
    assert "no-such-bucket" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert "step 1/" not in log.read_text()
