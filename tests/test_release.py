"""What may be released, and with which words."""

from __future__ import annotations

import subprocess
import sys

import pytest
from baking import ROOT

TOOL = ROOT / "tools" / "release.py"
sys.path.insert(0, str(TOOL.parent))
from release import notes, sections  # noqa: E402 (a script, and no package)

CHANGELOG = """# Changelog

All changes.

## Unreleased

## 1.1.0 - 2027-02-01

### Added

- A thing.

## [1.0.0] - 2027-01-01

First.
"""


def test_the_notes_are_the_tag_s_own_part() -> None:
    assert notes("v1.1.0", CHANGELOG) == "### Added\n\n- A thing.\n"


@pytest.mark.parametrize(
    ("tag", "changelog", "words"),
    [
        ("1.1.0", CHANGELOG, "give one like v1.2.0"),
        ("v1.1.0-rc1", CHANGELOG, "give one like v1.2.0"),
        ("", CHANGELOG, "give one like v1.2.0"),
        ("v1.2.0", CHANGELOG, 'no part "## 1.2.0 - DATE"'),
        ("v1.0.0", CHANGELOG, "not the newest"),
        ("v1.1.0", CHANGELOG.replace(" - 2027-02-01", ""), "needs a date"),
        ("v1.1.0", CHANGELOG.replace("### Added\n\n- A thing.\n", ""), "and a text"),
        ("v1.1.0", CHANGELOG.replace("Unreleased\n", "Unreleased\n\n- New.\n"), "move it to"),
    ],
)
def test_what_is_not_ready_is_refused(tag: str, changelog: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        notes(tag, changelog)


def test_the_changelog_here_can_be_read() -> None:
    names = list(sections((ROOT / "CHANGELOG.md").read_text("utf-8")))
    assert names[0] == "Unreleased"


def test_the_command_says_what_is_wrong() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "main"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
