"""The TPU compiler's figures of each preset on each slice, beside the same shape in plain JAX.

    nox -s bench -- presets             # all: an hour and more
    nox -s bench -- presets 1b v5e:2x2  # of these presets and slices

What is compiled is kept beside pre-flight's results: an interrupted bench goes on where it was.
Settings of a project change it too: `presets 8b train.activation_checkpointing=false`.
`presets whole 8b` compiles all layers, also of a deep model: minutes a row.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from common import PACKAGE, PROJECT, begin
from reference.run import figures as of_jax
from reference.run import part

SLICES = ("v5e:2x2", "v5e:4x4", "v6e:2x2", "v6e:4x4", "v5p:2x2x1", "7x:2x2x1")
VOCABULARY = {"125m": 50_257, "1b": 128_256, "8b": 128_256}
LENGTH = {"125m": 1024, "1b": 2048, "8b": 2048}
ROOMY = ("v5p", "7x")
"""Elsewhere 8b has no room for the activations of all layers, and recomputes them."""
SEQUENCES = {"125m": 8, "1b": 2, "8b": 1}
"""Of one device, in a step."""
GIB = 2**30
HEAD = ("preset", "slice", "HBM GiB", "share", "fits", "FLOPs/model", "sent/FSDP", "compile s")
BESIDE = ("HBM/JAX", "FLOPs/JAX", "sent/JAX")


def settings(preset: str, where: str, words: tuple[str, ...]) -> Any:
    generation, topology = where.split(":")
    slices = importlib.import_module(f"{PACKAGE}.slices")
    devices = slices.find(generation, topology)
    count = devices.devices_per_host * devices.hosts
    own = {
        "model.preset": preset,
        "train.batch_size": SEQUENCES[preset] * count,
        "train.sequence_length": LENGTH[preset],
        "train.activation_checkpointing": preset == "8b" and generation not in ROOMY,
        "hardware.generation": generation,
        "hardware.topology": topology,
        "hardware.slices": 1,
    }
    given = [f"{key}={str(value).lower()}" for key, value in own.items()]
    load = importlib.import_module(f"{PACKAGE}.settings").load
    return load(PROJECT / "run.toml", [*given, *words])


def studying(vocabulary: int) -> Any:
    """Pre-flight's module, for a tokenizer of this size."""
    study = part("study")
    study.vocabulary = lambda config: vocabulary
    return study


def _say(text: str) -> None:
    if text.endswith(": 0 s"):
        print(f"\r  {text.removesuffix(': 0 s')}", file=sys.stderr)


def minimum(config: Any, vocabulary: int) -> float:
    """Bytes that a device must send under FSDP: two gathers of the parameters and a scatter of the
    gradients, each in the type that is computed in."""
    shape, devices = config.model.shape(vocabulary), config.hardware.fsdp_devices
    size = 2 if config.train.compute_dtype == "bfloat16" else 4
    return float(3 * size * shape.parameters * (devices - 1) / devices)


def model_flops(config: Any, vocabulary: int) -> float:
    """What the model needs in a step, of one device."""
    shape, train = config.model.shape(vocabulary), config.train
    per_token = shape.flops_per_token(train.sequence_length)
    return float(per_token * train.tokens_per_step / config.hardware.devices)


def row(preset: str, where: str, words: tuple[str, ...], whole: bool) -> list[str]:
    config, vocabulary = settings(preset, where, words), VOCABULARY[preset]
    found = studying(vocabulary).Study(_say, whole=whole).figures(config)
    jax = of_jax(config, vocabulary, found.depths)
    line = "~" if len(found.depths) > 1 else " "
    return [
        preset,
        where,
        f"{line}{found.used / GIB:.2f}",
        f"{found.share:.1%}",
        "yes" if found.fits else "no",
        over(found.flops, model_flops(config, vocabulary)),
        over(found.sent_bytes, minimum(config, vocabulary)),
        f"{found.compile_seconds:.0f}",
        over(found.used, jax.used),
        over(found.flops, jax.flops),
        over(found.sent_bytes, jax.sent_bytes),
    ]


def over(one: float, other: float) -> str:
    """Nothing where the compiler refused, or its program could not be read."""
    return f"{one / other:.3f}" if one and other else "-"


def chosen_of(words: list[str]) -> list[str]:
    """Presets and slices. Ends with a message where a word is neither."""
    for word in words:
        if word not in VOCABULARY and not _is_slice(word):
            sys.exit(
                f'"{word}" is no preset and no slice; like {", ".join(VOCABULARY)} and v5e:2x2'
            )
    return words


def _is_slice(word: str) -> bool:
    slices = importlib.import_module(f"{PACKAGE}.slices")
    try:
        slices.find(*word.split(":", 1))
    except (TypeError, slices.UnknownSliceError):
        return False
    return True


def one_of(words: list[str], preset: str, where: str) -> tuple[str, str]:
    """The preset and the slice that are named, or these."""
    chosen = chosen_of(words)
    presets = [word for word in chosen if word in VOCABULARY]
    slices = [word for word in chosen if ":" in word]
    return (*presets, preset)[0], (*slices, where)[0]


def main() -> None:
    given, whole = [word for word in sys.argv[1:] if word != "whole"], "whole" in sys.argv[1:]
    words = tuple(word for word in given if "=" in word)
    chosen = chosen_of([word for word in given if word not in words])
    presets = [word for word in chosen if word in VOCABULARY] or list(VOCABULARY)
    slices = [word for word in chosen if ":" in word] or list(SLICES)
    print("  ".join(f"{name:>11}" for name in (*HEAD, *BESIDE)))
    for preset in presets:
        for where in slices:
            cells = row(preset, where, words, whole)
            print("  ".join(f"{cell:>11}" for cell in cells), flush=True)
    print("~: from 2 and 4 layers by a line; FSDP: 3 x parameters, in the type computed in")


if __name__ == "__main__":
    begin(main)
