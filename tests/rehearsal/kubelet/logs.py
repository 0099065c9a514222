"""What containers wrote, line by line with the time, and how a kubelet hands it out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.2


class Log:
    """The output of one run of a container."""

    def __init__(self, file: Path) -> None:
        self._file, self._ended = file, threading.Event()
        file.touch()

    def take(self, stream: IO[bytes]) -> None:
        """Until the stream ends."""
        with self._file.open("ab", buffering=0) as file, stream:
            for line in stream:
                file.write(f"{now()} ".encode() + line.rstrip(b"\n") + b"\n")
        self._ended.set()

    def lines(
        self,
        tail: int | None = None,
        since: str = "",
        timestamps: bool = False,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """`since`: only lines of this moment or later, written like `now`."""
        with self._file.open("rb") as file:
            known = [line for line in file if line.split(b" ", 1)[0].decode() >= since]
            kept = known if tail is None else known[max(0, len(known) - tail) :]
            yield from (_told(line, timestamps) for line in kept)
            while follow:
                # Asked before the file is read: what was written until then is seen.
                last = self._ended.wait(POLL_SECONDS)
                yield from (_told(line, timestamps) for line in _whole(file))
                if last:
                    return


def _whole(file: IO[bytes]) -> Iterator[bytes]:
    """Lines that are complete; the rest is left for the next look."""
    while line := file.readline():
        if not line.endswith(b"\n"):
            file.seek(-len(line), 1)
            return
        yield line


def _told(line: bytes, timestamps: bool) -> bytes:
    return line if timestamps else line.split(b" ", 1)[1]


def now() -> str:
    """As a kubelet writes the time of a line; such texts are in the order of time."""
    return moment(datetime.now(UTC))


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
