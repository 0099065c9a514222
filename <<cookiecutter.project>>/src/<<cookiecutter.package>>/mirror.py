"""A run's small files on this machine, mirrored to where the run is kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

import fsspec


class Mirror:
    """A local folder for `url`: itself where it is local, else a copy that `push` sends.

    Object stores cannot append; a run's metrics and events grow with each step.
    """

    def __init__(self, url: str) -> None:
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._remote = "://" in url and not url.startswith("file://")
        self._kept = tempfile.TemporaryDirectory(prefix="run-") if self._remote else None
        self.folder = Path(self._kept.name if self._kept else self._root)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sent: dict[Path, int] = {}

    def pull(self, name: str) -> None:
        """Fetches what an earlier attempt left under this name, if anything."""
        if self._remote and self._fs.exists(f"{self._root}/{name}"):
            self._fs.get_file(f"{self._root}/{name}", str(self.folder / name))

    def push(self) -> None:
        """Sends the files that grew or changed since the last time."""
        if not self._remote:
            return
        for path in sorted(p for p in self.folder.rglob("*") if p.is_file()):
            stamp = path.stat().st_mtime_ns
            if self._sent.get(path) != stamp:
                self._fs.put_file(str(path), f"{self._root}/{path.relative_to(self.folder)}")
                self._sent[path] = stamp
