"""Compile time of equal layers: one after another, and as torch_xla's scan over one of them.

    nox -s bench -- scan                                    # 8 layers of 8b, on v5p 2x2x1
    nox -s bench -- scan 8b v5p:2x2x1 model.layers=32

Without activation checkpointing. scan wants another jax than the project has: it is installed into
a folder of its own, which the process alone sees that traces the step.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zlib import crc32

from common import PROJECT, begin
from gains import HEAD, cells
from presets import one_of, settings

PACKAGES = ("jax==0.7.1", "jaxlib==0.7.1", "torchax==0.0.13", "ml_dtypes", "opt_einsum", "scipy")
HERE = Path(__file__).parent
USUAL = ("model.layers=8", "train.activation_checkpointing=false")


def environment() -> Path:
    folder = PROJECT.absolute().parent / "scan"
    if not (folder / "torchax").exists():
        tool = [uv, "pip"] if (uv := shutil.which("uv")) else [sys.executable, "-m", "pip"]
        wanted = ("--target", str(folder), "--no-deps", *PACKAGES)
        subprocess.run([*tool, "install", *wanted], check=True)
    return folder


def main() -> None:
    words = tuple(word for word in sys.argv[1:] if "=" in word)
    named = [word for word in sys.argv[1:] if word not in words]
    preset, where = one_of(named, "8b", "v5p:2x2x1")
    config = settings(preset, where, (*USUAL, *words))
    places = [str(environment()), str(HERE), str(HERE / "reference")]
    content = (HERE / "reference" / "scanned.py").read_bytes()
    scanned = f"import sys; sys.path[:0] = {places}; import scanned  # {crc32(content)}"
    print(f"{config.model.shape(1).layers} layers of {preset}, {where}")
    print(f"{'':<12}" + "  ".join(f"{name:>11}" for name in HEAD))
    for name, code in (("scan", scanned), ("each", "")):
        line = cells(config, preset, code)
        print(f"{name:<12}" + "  ".join(f"{cell:>11}" for cell in line), flush=True)


if __name__ == "__main__":
    begin(main)
