"""Write tests/trees/ anew: `python tests/make_trees.py`, then read its diff.

default.txt is every file of a project with the default answers; the others say what one other
answer takes away from it and adds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from baking import Oven, copy_template, difference, tree, variants

TREES = Path(__file__).resolve().parent / "trees"


def trees(oven: Oven, place: Path) -> dict[str, list[str]]:
    """The lines of each file in tests/trees, by its name; an option without effect has none."""
    default = tree(oven.bake(place / "default"))
    others = {
        name: difference(default, tree(oven.bake(place / name, **answers)))
        for name, answers in variants().items()
    }
    return {"default": default} | {name: lines for name, lines in others.items() if lines}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        template = copy_template(Path(folder) / "template")
        sys.path.insert(0, str(template))
        made = trees(Oven(template, Path(folder) / "oven"), Path(folder))
    for file in TREES.glob("*.txt"):
        file.unlink()
    for name, lines in made.items():
        (TREES / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
