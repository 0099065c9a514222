"""From settings to figures: exported, compiled and read, or taken from what was kept."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from ..config import Config
from ..data.tokens import load_tokenizer
from ..errors import Failure, Refused
from . import environment, faults, topology
from .environment import Say
from .figures import DEPTHS, Figures, NotCompiled, line, read
from .results import remembered

DEEPEST = 16
"""A model of more layers than these is compiled at DEPTHS of them."""
NEAR = (0.75, 1.3)
"""Shares of HBM between which a line decides nothing: bench/ saw it a quarter off."""
UNEVEN = 256 * 2**20
"""Temporaries below this may lie in a chip's own memory at the smaller depths and spill into HBM at
the larger one: nothing grows evenly then, and such a model is soon compiled as a whole."""
PACKAGE = faults.PACKAGE
APART = "ops"
"""A folder of which no step is made. Any other file may have a part in it."""
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that the compiler heeds."""
NO_MATTER = ("steps", "learning_rate", "warmup_steps", "final_learning_rate")
"""Settings of [train] that change no program: they are numbers given to it."""


@dataclass
class Study:
    """`whole` compiles every layer however many there are; `fresh` looks at nothing kept."""

    say: Say
    whole: bool = False
    fresh: bool = False

    def figures(self, config: Config) -> Figures:
        """Those by which it is decided: where a line comes near the limit, all layers are compiled.

        Raises InputError, Refused, Failure.
        """
        found = self.estimate(config)
        if len(found.depths) == 1 or not NEAR[0] < found.share < NEAR[1]:
            return found
        self.say(f"about {found.share:.0%} of HBM is near the limit: compiling all layers")
        return self._at(config, config.model.shape(1).layers)

    def estimate(self, config: Config) -> Figures:
        """Of a deep model those of the line through two depths. Raises as `figures` does."""
        layers = config.model.shape(1).layers
        if self.whole or layers <= DEEPEST:
            return self._at(config, layers)
        low, high = (self._at(config, depth) for depth in DEPTHS)
        if high.needed is None and high.memory["temporary"] < UNEVEN:
            self.say(
                f"what fits on the chip itself grows on no line: compiling all {layers} layers"
            )
            return self._at(config, layers)
        return line(low, high, layers)

    def _at(self, config: Config, layers: int) -> Figures:
        config = replace(config, model=replace(config.model, layers=layers))

        def compiled() -> Figures:
            try:
                with TemporaryDirectory(prefix="preflight-") as folder:
                    return replace(self._compiled(config, Path(folder)), depths=(layers,))
            except OSError as error:
                where = error.filename or gettempdir()
                remedy = "mend that, or set TMPDIR or XDG_CACHE_HOME to other folders"
                raise Refused(f"it cannot work: {error.strerror}", str(where), remedy) from None

        return remembered(key(config), compiled, self.say, self.fresh)

    def _compiled(self, config: Config, folder: Path) -> Figures:
        # First the environment: without it there is nothing to export for.
        python = environment.python(self.say)
        count = config.model.shape(1).layers
        what = f"{count} layer{'s' * (count > 1)} for {_slice(config)}"
        request = {"config": asdict(config), "vocabulary": vocabulary(config)}
        _write(folder / "request.json", request)
        export = [sys.executable, "-m", f"{__package__}.export", str(folder)]
        self._run(export, folder, f"tracing {what}")
        exported = json.loads((folder / "programs.json").read_text("utf-8"))
        if fault := exported.get("fault"):
            raise faults.not_lowered(fault)
        programs = exported["programs"]
        _write(folder / "compile.json", topology.of(config) | {"programs": programs})
        script = str(Path(__file__).with_name("compiling.py"))
        try:
            self._run([str(python), script, str(folder)], folder, f"compiling {what}")
        except Failure:
            environment.check()
            raise
        counts = {program["name"]: program["count"] for program in programs}
        try:
            return read(folder, config.hardware.devices, counts)
        except NotCompiled as error:
            raise faults.not_compiled(str(error), _slice(config)) from None

    def _run(self, command: Sequence[str], folder: Path, what: str) -> None:
        """Tells how long it takes; ends the process when this one is interrupted."""
        log, began = folder / "log", time.monotonic()
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603
                command, stdout=output, stderr=output, env=_variables(folder)
            )
            try:
                while process.poll() is None:
                    self.say(f"{what}: {time.monotonic() - began:.0f} s")
                    _wait(process)
            finally:
                process.kill()
        if process.returncode:
            raise faults.broken(what, log)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return


def _variables(folder: Path) -> dict[str, str]:
    """The package is found as this process found it, installed or not. libtpu leaves logs where
    temporary files go: they go with the folder."""
    path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path.rstrip(os.pathsep), "TMPDIR": str(folder)}
    return {**os.environ, **own, "TF_CPP_MIN_LOG_LEVEL": "2"}


def key(config: Config) -> str:
    """A name for the figures: another one as soon as anything changes that they depend on."""
    train = {name: value for name, value in asdict(config.train).items() if name not in NO_MATTER}
    matters = {
        "shape": asdict(config.model.shape(vocabulary(config))),
        "train": train,
        "compile": topology.of(config),
        "fsdp": config.hardware.fsdp_devices,
        "code": _code(),
        "versions": [*environment.PACKAGES, *_installed()],
        "flags": {name: os.environ.get(name, "") for name in FLAGS},
    }
    return hashlib.sha256(json.dumps(matters, sort_keys=True).encode()).hexdigest()[:32]


def _code() -> dict[str, str]:
    """Of the package, and of those that stand beside it in the project's `src`."""
    root = PACKAGE.parent if PACKAGE.parent.name == "src" else PACKAGE
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(root.rglob("*.py"))
        if not file.is_relative_to(PACKAGE / APART)
    }


def vocabulary(config: Config) -> int:
    return load_tokenizer(config.data.tokenizer).vocab_size


def _installed() -> list[str]:
    """Any of these the model may import."""
    return sorted({f"{one.name}=={one.version}" for one in distributions()})


def _write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, default=str), encoding="utf-8")


def _slice(config: Config) -> str:
    one, slices = config.hardware.slice, config.hardware.slices
    return f"{one.generation} {one.topology}" + (f" x {slices}" if slices > 1 else "")
