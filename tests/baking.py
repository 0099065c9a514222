"""Bakes projects from a clean copy of the template as it lies on disk, committed or not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from cookiecutter.generate import generate_context
from cookiecutter.main import cookiecutter
from cookiecutter.prompt import prompt_for_config

ROOT = Path(__file__).resolve().parents[1]
PROJECT, PACKAGE = "<<cookiecutter.project>>", "<<cookiecutter.package>>"
CACHES = ("__pycache__", ".*_cache", ".venv")


def raw() -> dict[str, Any]:
    """cookiecutter.json."""
    questions: dict[str, Any] = json.loads((ROOT / "cookiecutter.json").read_text("utf-8"))
    return questions


def copy_template(to: Path) -> Path:
    """What a clone of this repository would hold if all were committed."""
    ignored = [f"--exclude={cache}" for cache in CACHES]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *ignored]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).exists():  # git still lists a file that was removed and not yet committed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    return to


class Oven:
    """A template, and a place where nothing of this machine's own settings reaches it."""

    def __init__(self, template: Path, place: Path) -> None:
        self.template, self.place = template, place
        place.mkdir(parents=True, exist_ok=True)
        self.config = place / "config.yaml"
        folders = {"cookiecutters_dir": str(place / "clones"), "replay_dir": str(place / "replay")}
        self.config.write_text(json.dumps(folders), "utf-8")
        git = {
            f"GIT_{who}_{what}": "a@b.c"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {"PATH": path, "HOME": str(place), "LANG": "C.UTF-8", **git}

    def bake(self, to: Path, **answers: Any) -> Path:
        """The folder of the project, made in this process."""
        return Path(
            cookiecutter(
                str(self.template),
                no_input=True,
                extra_context=answers,
                output_dir=str(to),
                config_file=str(self.config),
            )
        )

    def settle(self, **answers: Any) -> dict[str, Any]:
        """The answers as the template's files get them; nothing is written."""
        context = generate_context(str(self.template / "cookiecutter.json"), None, answers)
        return dict(prompt_for_config(context, no_input=True))

    def run(
        self, *command: str | Path, cwd: Path | None = None, typed: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """A command line, with `typed` on its standard input."""
        words = [str(word) for word in command]
        return subprocess.run(
            words,
            cwd=cwd or self.place,
            env=self.environment,
            input=typed,
            capture_output=True,
            text=True,
        )

    def cookiecutter(
        self, to: Path, *words: str, typed: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The real command; asks its questions where `typed` answers them."""
        silent = ["--no-input"] if typed is None else []
        return self.run("cookiecutter", *silent, "-o", to, self.template, *words, typed=typed or "")


def tree(project: Path) -> list[str]:
    """All files, sorted; a star marks those that can be executed."""
    files = [file for file in project.rglob("*") if not file.is_dir()]
    stars = {file: "*" if os.access(file, os.X_OK) else "" for file in files}
    return sorted(f"{file.relative_to(project).as_posix()}{stars[file]}" for file in files)


def variants() -> dict[str, dict[str, str]]:
    """Every choice of cookiecutter.json that is not the default, by a name for its tree file."""
    return {
        f"{question}={choice}": {question: choice}
        for question, choices in raw()["_choices"].items()
        for choice in choices
        if choice != raw()[question]
    }


def difference(default: list[str], other: list[str]) -> list[str]:
    """What an option takes away from the default tree, and what it adds."""
    gone = [f"- {name}" for name in default if name not in other]
    return gone + [f"+ {name}" for name in other if name not in default]
