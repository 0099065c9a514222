"""Storage errors, told apart: those that pass, those that a person must mend, broken files."""

from __future__ import annotations

import errno
import sys

from ..errors import Failure, Refused

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}
NO_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENODEV}
# https://cloud.google.com/storage/docs/retry-strategy
PASSING = {408, 429, 500, 502, 503, 504}


class Broken(Exception):
    """A file of a checkpoint is not what was written: the checkpoint cannot be used."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(file, why)
        self.file, self.why = file, why

    def __str__(self) -> str:
        return f"{self.file} {self.why}"


def passing(error: BaseException) -> bool:
    """Whether trying again may help: the network or the service had a bad moment."""
    if isinstance(error, (ConnectionError, TimeoutError)) or _code(error) in PASSING:
        return True
    gcs = sys.modules.get("gcsfs.retry")  # without that module it is none of its errors
    return gcs is not None and bool(gcs.is_retriable(error))


def as_failure(error: Exception, where: str) -> Failure:
    """What a person is told of an error that came from the storage at `where`."""
    if isinstance(error, Failure):
        return error
    cause = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    number = error.errno if isinstance(error, OSError) else None
    if number in FULL:
        return Refused(
            f"the storage of the checkpoints is full ({cause})",
            where,
            "free space there, lower [checkpoint] keep, or name a larger place in [run] storage",
        )
    if number in NO_RIGHT or _no_right(error):
        return Refused(
            f"no right to use the storage of the checkpoints ({cause})",
            where,
            "let this account read, write and delete there (on Google Cloud Storage: "
            "roles/storage.objectUser on the bucket), or name another place in [run] storage",
        )
    if number in NO_FOLDER or isinstance(error, FileNotFoundError) or _code(error) == 404:
        return Refused(
            f"the storage of the checkpoints is not there ({cause})",
            where,
            "create the bucket or the folder, or correct [run] storage",
        )
    if "credentials" in cause.lower():
        return Refused(
            f"the storage of the checkpoints does not know who asks ({cause})",
            where,
            "log in with `gcloud auth application-default login`; in a cluster, give the pod's "
            "service account a Google account (Workload Identity)",
        )
    return Failure(
        f"the storage of the checkpoints failed ({cause})",
        where,
        "start the run again: it goes on from its newest complete checkpoint; if this comes back, "
        "look at the storage itself",
    )


def _no_right(error: Exception) -> bool:
    """As object stores say it: gcsfs raises a bare OSError that begins with Forbidden for a 403."""
    forbidden = isinstance(error, OSError) and str(error).startswith("Forbidden")
    return forbidden or isinstance(error, PermissionError) or _code(error) in (401, 403)


def _code(error: BaseException) -> int | None:
    """The HTTP status that an error carries, under the names that the clients give it."""
    for name in ("code", "status"):
        value = str(getattr(error, name, ""))
        if value.isdigit():
            return int(value)
    return None
