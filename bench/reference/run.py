"""Figures of the reference step, compiled by the compiler that pre-flight uses and kept beside
pre-flight's own results."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import PACKAGE

SCRIPT = Path(__file__).with_name("step.py")


def part(name: str) -> Any:
    """A module of the project's pre-flight."""
    return importlib.import_module(f"{PACKAGE}.preflight.{name}")


def figures(config: Any, vocabulary: int, depths: tuple[int, ...]) -> Any:
    """At the same depths as ours: of two, the line between them."""
    found = [_at(config, vocabulary, depth) for depth in depths]
    layers = config.model.shape(1).layers
    return part("figures").line(*found, layers) if len(found) == 2 else found[0]


def request(config: Any, vocabulary: int, layers: int) -> dict[str, Any]:
    shape, train = config.model.shape(vocabulary), config.train
    sizes = {"vocabulary": shape.padded_vocabulary, "head_size": shape.head_size, "layers": layers}
    kept = {key: getattr(train, key) for key in ("compute_dtype", "activation_checkpointing")}
    return {
        "model": {**asdict(shape), **sizes, **kept},
        "tokens": [train.batch_size, train.sequence_length + 1],
        "fsdp": config.hardware.fsdp_devices,
        **part("topology").of(config),
    }


def _at(config: Any, vocabulary: int, layers: int) -> Any:
    wanted = request(config, vocabulary, layers)

    def compiled() -> Any:
        with TemporaryDirectory(prefix="reference-") as folder:
            return replace(_compiled(wanted, Path(folder)), depths=(layers,))

    packages = part("environment").PACKAGES
    return kept("reference", [wanted, packages, *map(_content, (SCRIPT, *_readers()))], compiled)


def _readers() -> list[Path]:
    """What reads the compiled program."""
    return [Path(part(name).__file__) for name in ("flops", "hlo", "program")]


def _content(file: Path) -> str:
    return file.read_text("utf-8")


def kept(kind: str, matters: list[Any], make: Callable[[], Any]) -> Any:
    """Figures that were made before of the same, or those that are made now."""
    name = hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:32]
    return part("results").remembered(f"{kind}-{name}", make, print)


def _compiled(wanted: dict[str, Any], folder: Path) -> Any:
    (folder / "request.json").write_text(json.dumps(wanted), "utf-8")
    python = part("environment").python(print)
    # Else libtpu refuses to be loaded while pre-flight has it, though there is no chip to share.
    beside = {**os.environ, "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    subprocess.run([python, SCRIPT, folder], check=True, capture_output=True, env=beside)
    found = json.loads((folder / "reference.json").read_text("utf-8"))
    make = part("figures").Figures
    if "refused" in found:
        needed = part("figures").refusal(found["refused"])
        assert needed, found["refused"]
        return make(needed[1], needed=needed[0])
    memory = {"arguments": found["argument_bytes"] + found["output_bytes"]}
    memory |= {"temporary": found["temporary_bytes"], "code": found["code_bytes"]}
    known = {"compile_seconds": found["seconds"]}
    return replace(make(float("inf"), memory, **known), **_work(folder, wanted["devices"]))


def _work(folder: Path, devices: int) -> dict[str, Any]:
    text = part("hlo").text_in(folder / "program")
    work = part("program").measure(part("hlo").parse(text), devices)
    sent = {one.kind: (one.count, one.bytes) for one in work.collectives}
    return {"flops": work.flops, "hbm_bytes": work.hbm_bytes, "collectives": sent}
