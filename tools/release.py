"""Checks that a tag may be released, and writes its notes: its part of CHANGELOG.md.

nox -s release -- v1.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTES = ROOT / "build" / "notes.md"
TAG = re.compile(r"v\d+\.\d+\.\d+")
HEADING = re.compile(
    r"^## (?:\[)?(?P<name>[^\]\s]+)(?:\])?(?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.M
)


def sections(changelog: str) -> dict[str, tuple[str, str]]:
    """Name -> date and text, like "1.2.0" -> ("2027-01-31", "### Added ..."), newest first."""
    found = list(HEADING.finditer(changelog))
    ends = [match.start() for match in found[1:]] + [len(changelog)]
    return {
        match["name"]: (match["date"] or "", changelog[match.end() : end].strip())
        for match, end in zip(found, ends, strict=True)
    }


def notes(tag: str, changelog: str) -> str:
    """The text of this tag's release. Raises ValueError: what is wrong, and what to do."""
    if not TAG.fullmatch(tag):
        raise ValueError(f'"{tag}" is no tag of a release: give one like v1.2.0')
    found = sections(changelog)
    name = tag.removeprefix("v")
    if name not in found:
        raise ValueError(f'CHANGELOG.md has no part "## {name} - DATE": name its changes there')
    date, text = found[name]
    if not date or not text:
        raise ValueError(f'"## {name}" of CHANGELOG.md needs a date, like 2027-01-31, and a text')
    if found.get("Unreleased", ("", ""))[1]:
        raise ValueError(f'"## Unreleased" of CHANGELOG.md is not empty: move it to "## {name}"')
    if next(other for other in found if other != "Unreleased") != name:
        raise ValueError(f'"## {name}" is not the newest part of CHANGELOG.md')
    return f"{text}\n"


def main() -> None:
    try:
        text = notes(sys.argv[1] if sys.argv[1:] else "", (ROOT / "CHANGELOG.md").read_text())
    except ValueError as error:
        sys.exit(f"error: {error}")
    NOTES.parent.mkdir(exist_ok=True)
    NOTES.write_text(text)
    print(f"wrote {NOTES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
