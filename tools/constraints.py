"""Writes the project's constraints.txt: the newest versions that its pyproject.toml admits.

    nox -s bump

One file serves both frameworks: lines that differ stand in a Jinja branch, so that a project holds
only its own.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from cookiecutter.main import cookiecutter

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "<<cookiecutter.project>>" / "constraints.txt"
FRAMEWORKS = ("torch_xla", "torch_tpu")
# torch pins its CUDA libraries itself, and its CPU build has none.
CUDA = re.compile(r"^(nvidia|cuda|triton)\b")
HEADER = (
    "# The exact versions that were tested together; `nox -s bump` in the template renews them.\n"
)


def resolve(framework: str) -> dict[str, str]:
    """Package name -> requirement line, for a project made with this framework."""
    with TemporaryDirectory() as folder:
        answers = {"framework": framework}
        project = Path(
            cookiecutter(str(ROOT), no_input=True, output_dir=folder, extra_context=answers)
        )
        (project / "requirements.in").write_text("\n".join(_wanted(project)))
        lines = _compile(project / "requirements.in").splitlines()
    lines = [line for line in lines if not CUDA.match(line)]
    return {line.split("==")[0]: line for line in map(_on_linux, lines) if line}


def _wanted(project: Path) -> list[str]:
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    groups = [
        *settings["dependency-groups"].values(),
        *settings["project"]["optional-dependencies"].values(),
    ]
    return [*settings["project"]["dependencies"], *(line for group in groups for line in group)]


def _compile(requirements: Path) -> str:
    options = ("--universal", "--python-version", "3.11", "--no-header", "--no-annotate")
    command = ["uv", "pip", "compile", "-q", *options, "--no-emit-index-url", requirements.name]
    done = subprocess.run(
        command, cwd=requirements.parent, check=True, capture_output=True, text=True
    )
    return done.stdout


def _on_linux(line: str) -> str:
    """The line without markers that always hold here, or nothing where they never do."""
    requirement, _, marker = line.partition(" ; ")
    if "win32" in marker:
        return ""
    return line if "python_full_version" in marker else requirement


def merge(xla: dict[str, str], tpu: dict[str, str]) -> str:
    """One template for both: what they share stands alone, the rest in branches."""
    rows = [(xla.get(name, ""), tpu.get(name, "")) for name in sorted({*xla, *tpu})]
    parts = []
    for same, group in groupby(rows, key=lambda row: row[0] == row[1]):
        pairs = list(group)
        parts.append(_plain(pairs, 0) if same else _branches(pairs))
    return HEADER + "".join(parts)


def _plain(pairs: list[tuple[str, str]], side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in pairs if pair[side])


def _branches(pairs: list[tuple[str, str]]) -> str:
    ours, theirs = _plain(pairs, 0), _plain(pairs, 1)
    begin = '<% if cookiecutter.framework == "torch_xla" %>\n'
    if not ours:
        return f'<% if cookiecutter.framework == "torch_tpu" %>\n{theirs}<% endif %>\n'
    return f"{begin}{ours}" + (f"<% else %>\n{theirs}" if theirs else "") + "<% endif %>\n"


def main() -> None:
    text = merge(*(resolve(framework) for framework in FRAMEWORKS))
    TARGET.write_text(text)
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
