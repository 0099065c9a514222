"""What the step gained, change by change, in the compiler's figures.

    nox -s bench -- gains           # of four layers of the preset 125m, on v5e 2x2
    nox -s bench -- gains 1b v5e:2x2 model.layers=16

Each row takes something back that the step does today; the last is the step of the usual guide:
every chip holds all of the model and computes in float32.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import PACKAGE, begin
from presets import (
    GIB,
    SEQUENCES,
    VOCABULARY,
    model_flops,
    one_of,
    over,
    settings,
    studying,
)
from reference.run import kept

LAYERS = "model.layers=4"
PLAIN = "xla.attend = model.attend"
UNCUT = "xla.Xla._cut_gradient = lambda self, parameter: None"
LEFT = "xla.Xla._look_up = lambda self, one, tokens: xla.F.embedding(tokens, one.embedding.weight)"
UNPINNED = "xla.Xla._attend = lambda self, *inputs: model.attend(*inputs)"
HEAD = ("HBM GiB", "FLOPs/model", "sent GB", "HBM GB", "compile s")


@dataclass(frozen=True)
class Variant:
    """`words` are settings, `code` what is changed in the process that traces the step."""

    name: str
    words: tuple[str, ...] = ()
    code: str = ""


FULL = ("hardware.fsdp=1", "train.compute_dtype=float32")
PARTS = ("train.accumulation=2",)
VARIANTS = (
    Variant("as it is"),
    Variant("scores kept", code=PLAIN),
    Variant("rows left to the partitioner", code=LEFT),
    Variant("this project's first step", code="\n".join((UNPINNED, UNCUT, LEFT))),
    Variant("scores kept, float32", ("train.compute_dtype=float32",), PLAIN),
    Variant("the guide's: float32, no sharding", FULL, PLAIN),
    Variant("as it is, in two parts", PARTS),
    Variant("in two parts, gradients not cut", PARTS, UNCUT),
)


class Traced:
    """Pre-flight's study of a step that `code` changed."""

    def __init__(self, config: Any, vocabulary: int, code: str) -> None:
        self._config, self._code = config, code
        self._study = studying(vocabulary)

    def figures(self) -> Any:
        """Kept under another name than those of the project's own step."""
        if not self._code:
            return self._study.Study(lambda text: None, whole=True).figures(self._config)
        name = [self._study.key(self._config), self._code]
        return kept("variant", name, self._compiled)

    def _compiled(self) -> Any:
        study = self._study.Study(lambda text: None)
        run = study._run
        study._run = lambda command, folder, what: run(self._changed(command), folder, what)
        with TemporaryDirectory(prefix="variant-") as folder:
            found = study._compiled(self._config, Path(folder))
        return replace(found, depths=(self._config.model.shape(1).layers,))

    def _changed(self, command: Sequence[str]) -> list[str]:
        if "-m" not in command:
            return list(command)
        lines = (
            f"from {PACKAGE} import model",
            f"from {PACKAGE}.accelerator import xla",
            self._code,
            f"from {PACKAGE}.preflight import export",
            "export.main()",
        )
        return [command[0], "-c", "\n".join(lines), command[-1]]


def row(variant: Variant, preset: str, where: str, words: tuple[str, ...]) -> list[str]:
    """`words` are settings of all variants."""
    batch = f"train.batch_size={_batch(preset, where, variant)}"
    config = settings(preset, where, (LAYERS, batch, *words, *variant.words))
    return cells(config, preset, variant.code)


def cells(config: Any, preset: str, code: str) -> list[str]:
    """What stands under HEAD, of the step that `code` changed."""
    found = Traced(config, VOCABULARY[preset], code).figures()
    return [
        f"{found.used / GIB:.2f}" + ("" if found.fits else " no"),
        over(found.flops, model_flops(config, VOCABULARY[preset])),
        f"{found.sent_bytes / 1e9:.2f}",
        f"{found.hbm_bytes / 1e9:.1f}",
        f"{found.compile_seconds:.0f}",
    ]


def _batch(preset: str, where: str, variant: Variant) -> int:
    """As many sequences in each part as in a whole step."""
    parts = 2 if variant.words == PARTS else 1
    return parts * SEQUENCES[preset] * int(settings(preset, where, ()).hardware.devices)


def main() -> None:
    words = tuple(word for word in sys.argv[1:] if "=" in word)
    preset, where = one_of([word for word in sys.argv[1:] if word not in words], "125m", "v5e:2x2")
    told = dict(word.split("=", 1) for word in (LAYERS, *words))
    print(f"{preset}, {where}, {SEQUENCES[preset]} sequences a device and part, {told}")
    print(f"{'':<34}" + "  ".join(f"{name:>11}" for name in HEAD))
    for variant in VARIANTS:
        line = row(variant, preset, where, words)
        print(f"{variant.name:<34}" + "  ".join(f"{cell:>11}" for cell in line), flush=True)


if __name__ == "__main__":
    begin(main)
