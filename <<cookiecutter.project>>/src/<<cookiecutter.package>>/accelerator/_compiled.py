"""Programs that the TPU compiler made, kept beside the runs: the next start takes them from there.

The runtime names a program after all that it is made of: another model, topology or batch makes
another file. Another version of the compiler has a folder of its own.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..data.storage import Place, listing, locate, read_bytes, storage_faults, write_atomic
from ..errors import Failure

log = logging.getLogger(__name__)

KEPT = 32
"""Programs; a run of this project has a handful. The oldest go first."""
PARTS = ("torch_xla", "libtpu")


class Compiled:
    """Those under `url`, and their copies on this machine, which are in the folder `here`.

    Nothing is raised: without them the compiler works again, and a warning says so.
    """

    def __init__(self, url: str) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix="compiled-")
        self.here = Path(self._kept.name)
        self._url = f"{url}/{folder_name()}"
        self._known: set[str] = set()

    def fetch(self) -> None:
        try:
            there = locate(self._url)
            for name in listing(there):
                if content := read_bytes(there / name):
                    (self.here / name).write_bytes(content)
                    self._known.add(name)
        except (Failure, OSError) as fault:
            log.warning("compiled programs cannot be fetched: %s", fault)

    def keep(self) -> threading.Thread:
        """Sends the new ones from a thread of its own: nobody waits for it."""
        thread = threading.Thread(target=self._keep, daemon=True)
        thread.start()
        return thread

    def _keep(self) -> None:
        try:
            there = locate(self._url)
            for file in sorted(self.here.iterdir()):
                if file.name not in self._known:
                    write_atomic(there / file.name, file.read_bytes())
                    self._known.add(file.name)
            _prune(there)
        except (Failure, OSError) as fault:
            log.warning("compiled programs cannot be kept: %s", fault)


def folder_name() -> str:
    """Like `torch_xla-2.9.0+libtpu-0.0.52`: what one version wrote another may not read."""
    found = []
    for part in PARTS:
        try:
            found.append(f"{part}-{version(part)}")
        except PackageNotFoundError:
            continue
    return "+".join(found)


def _prune(there: Place) -> None:
    names = listing(there)
    with storage_faults("remove old programs", there.url):
        if len(names) > KEPT:
            by_age = sorted(names, key=lambda name: there.fs.modified((there / name).path))
            for name in by_age[:-KEPT]:
                there.fs.rm_file((there / name).path)
