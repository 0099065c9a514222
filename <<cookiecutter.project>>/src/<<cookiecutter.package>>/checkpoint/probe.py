"""Whether every rank can write, read and remove, and whether all of them see the same place."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from functools import partial

from ..errors import Failure, Refused
from .background import Background
from .files import Files
from .manifest import seal
from .ranks import together
from .state import Group


def probe(files: Callable[[], Files], where: str, group: Group, seconds: float) -> None:
    """Refused when it fails on this rank; Failure when it fails on another one only."""
    attempt = group.share(secrets.token_hex(4))
    own, common = f"probe-{attempt}-{group.rank}", f"probe-{attempt}-0"
    text = seal({"attempt": attempt})
    soon = partial(_within, seconds, where)
    try:
        together(group, where, lambda: soon(lambda: files().put(own, text)))
        together(group, where, lambda: soon(lambda: _look(files(), common, text)))
    except Failure:
        with contextlib.suppress(Exception):  # the first failure is the one to tell
            soon(lambda: files().remove(own))
        raise
    # Only now, when no rank looks for the others' objects any more.
    together(group, where, lambda: soon(lambda: files().remove(own)))


def _look(files: Files, name: str, text: bytes) -> None:
    try:
        found = files.read_all([name])[0]
    except FileNotFoundError:
        raise Refused(
            "this machine does not see what rank 0 has just written: not one storage, but several",
            files.url(name),
            "name in [run] storage a place that all machines share, such as a gs:// bucket",
        ) from None
    if found != text:
        raise Refused(
            "the storage of the checkpoints gives back other bytes than were written",
            files.url(name),
            "look at the storage, or name another place in [run] storage",
        )


def _within(seconds: float, where: str, work: Callable[[], None]) -> None:
    """A storage that never answers is one that refuses."""
    background = Background("checkpoint-probe")
    background.start(work)
    if not background.wait(seconds):
        raise Refused(
            f"the storage of the checkpoints gave no answer within {seconds:.0f} s",
            where,
            "check the address in [run] storage, the network, and that credentials are to be had",
        )
