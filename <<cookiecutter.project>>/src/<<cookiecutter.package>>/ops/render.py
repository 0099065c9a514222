"""k8s/ beside run.toml: written from it, or held against it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, Refused
from .manifests import Object

FOLDER = "k8s"
HEADER = "# Written by `ops render` from run.toml: change that, then run it again.\n"


@dataclass(frozen=True)
class Rendered:
    """`changed` are the files that were, or would be, written; `same` needed nothing."""

    folder: str
    changed: list[str]
    same: list[str]


class _Plain(yaml.SafeDumper):
    """Every value where it stands: no anchors for parts that occur twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text_of(manifest: Object) -> str:
    """The same object gives the same text, byte for byte."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": float("inf")}
    return HEADER + str(yaml.dump(manifest, Dumper=_Plain, default_flow_style=False, **options))


def look(folder: Path, objects: dict[str, Object]) -> Rendered:
    """Which files of `folder` are not what the settings say; changes nothing."""
    texts = {name: text_of(manifest) for name, manifest in objects.items()}
    changed = [name for name, text in texts.items() if _read(folder / name) != text]
    return Rendered(str(folder), changed, [name for name in texts if name not in changed])


def write(folder: Path, objects: dict[str, Object]) -> Rendered:
    """Writes the files that differ. Raises Refused, InputError."""
    found = look(folder, objects)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in found.changed:
            (folder / name).write_text(text_of(objects[name]), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Refused(
            f"the manifests could not be written: {error.strerror}",
            str(error.filename or folder),
            "mend the rights or the disk and run `ops render` again",
        ) from None
    return found


def difference(folder: Path, objects: dict[str, Object]) -> str:
    """A unified diff from the files to what the settings say; empty where they agree."""
    lines: list[str] = []
    for name, manifest in objects.items():
        before, after = _read(folder / name) or "", text_of(manifest)
        lines += unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"{folder.name}/{name}",
            f"{folder.name}/{name} as run.toml says",
        )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def disagreement(folder: Path, changed: list[str], command: str) -> InputError:
    """Where only files differ that are not written from run.toml, they are somebody's to mend."""
    if not changed:
        return InputError(
            "a manifest would be refused or never start",
            str(folder),
            "correct or remove what is named above",
        )
    return InputError(
        f"{', '.join(changed)} and run.toml disagree",
        str(folder),
        f"run `{command}` and commit what it writes",
    )


def _read(file: Path) -> str | None:
    """None where there is no such file, or no text in it. Raises InputError."""
    try:
        return file.read_bytes().decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    except OSError as error:
        raise InputError(
            f"a manifest could not be read: {error}", str(file), "mend or remove the file"
        ) from None
