"""Small files in the bucket, or in any other place that fsspec reaches."""

from __future__ import annotations

import fsspec

from ..errors import Refused


def write(url: str, text: str) -> None:
    """Raises Refused."""
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(path, text.encode())
    except Exception as error:  # each storage raises errors of its own
        raise _refused("written", url, error) from None


def read_all(pattern: str) -> list[str]:
    """The texts of all files that match, by name. Raises Refused."""
    return list(read_named(pattern).values())


def read_named(pattern: str) -> dict[str, str]:
    """The same with the files' paths. Raises Refused."""
    try:
        filesystem, path = fsspec.core.url_to_fs(pattern)
        found = sorted(filesystem.glob(path))
        return {name: filesystem.cat_file(name).decode() for name in found}
    except Exception as error:  # as above
        raise _refused("read", pattern, error) from None


def _refused(done: str, url: str, error: Exception) -> Refused:
    return Refused(
        f"could not be {done}: {error}",
        url,
        "check the network and the rights on the bucket: `ops doctor`",
    )
