"""The programs of the control plane, built once from the modules pinned under go/."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODULES = Path(__file__).parent / "go"
KUBERNETES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
OPERATOR = "ray-operator"
OPERATOR_MODULE = f"github.com/ray-project/kuberay/{OPERATOR}"
PROGRESS_SECONDS = 30
NEEDED = {
    "go": "which builds the control plane",
    "setpriv": "of util-linux, which ends the control plane with the tests",
}
Say = Callable[[str], None]


class CannotRehearse(Exception):  # noqa: N818 (it is no error: the machine lacks something)
    """This machine cannot run the control plane; the text says why."""


def find(part: str, say: Say = print) -> Path:
    """The folder with the programs of one module of go/; the first time takes many minutes.

    An operator's folder also has `config`, what is installed with it. Raises CannotRehearse.
    """
    given = Path(os.environ.get("KUBEBUILDER_ASSETS") or os.devnull)
    if part == "kubernetes" and all((given / name).exists() for name in KUBERNETES):
        return given
    for tool, purpose in NEEDED.items():
        if shutil.which(tool) is None:
            raise CannotRehearse(f"no {tool} here, {purpose}")
    kept = _cache() / f"{part}-{_key(MODULES / part)}"
    with _alone(kept.with_suffix(".lock")):
        if not kept.exists():
            _build(part, kept, say)
    return kept


def _cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "ray-tpu-template" / "plane"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _key(module: Path) -> str:
    """Another pin or another Go is another build."""
    found = hashlib.sha256(_go(module, "version").encode())
    for name in ("go.mod", "go.sum"):
        found.update((module / name).read_bytes())
    return found.hexdigest()[:16]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two test processes do not build the same at once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(part: str, kept: Path, say: Say) -> None:
    """What was compiled stays until all is: a build that was cut goes on."""
    compiled, fresh = kept.with_suffix(".go-build"), kept.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    say(f"fetching the modules of {part}")
    _download(MODULES / part)
    _compile(MODULES / part, fresh, compiled, say)
    _finish(MODULES / part, fresh)
    fresh.rename(kept)
    shutil.rmtree(compiled, ignore_errors=True)


def _download(module: Path) -> None:
    done = subprocess.run(
        ["go", "mod", "download"], cwd=module, env=_environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise CannotRehearse(f"the Go modules of {module.name} cannot be had: {done.stderr[-500:]}")


def _compile(module: Path, into: Path, compiled: Path, say: Say) -> None:
    began, last = time.monotonic(), time.monotonic()
    flags = f"-ldflags=-s -w {_version(module)}".rstrip()
    command = ["go", "build", "-v", "-trimpath", flags, f"-o={into}/", "tool"]
    environment = _environment() | {"GOCACHE": str(compiled)}
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                say(f"building {module.name}: {len(lines)} packages, {last - began:.0f} s")
    if process.returncode:
        raise RuntimeError(f"go build of {module} failed:\n{''.join(lines[-20:])}")
    say(f"built {module.name} in {time.monotonic() - began:.0f} s")


def _version(module: Path) -> str:
    """Kubernetes has its version from whoever links it; without one, clients take it for broken."""
    if module.name != "kubernetes":
        return ""
    version = json.loads(_go(module, "list", "-m", "-json", "k8s.io/kubernetes"))["Version"]
    names = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {name}.gitVersion={version}" for name in names)


def _finish(module: Path, fresh: Path) -> None:
    """Go names a program after its package; an operator's own manifests belong to it."""
    if (fresh / "server").exists():
        (fresh / "server").rename(fresh / "etcd")
    if (fresh / OPERATOR).exists():
        about = json.loads(_go(module, "list", "-m", "-json", OPERATOR_MODULE))
        _copy(Path(about["Dir"]) / "config", fresh / "config")


def _copy(source: Path, target: Path) -> None:
    """Without the rights of the module cache, where nobody may remove anything."""
    target.mkdir()
    for path in source.iterdir():
        if path.is_dir():
            _copy(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)


def _go(module: Path, *words: str) -> str:
    done = subprocess.run(
        ["go", *words], cwd=module, env=_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def main() -> None:
    """Builds what is missing, so that it can be done beside other work."""
    for module in sorted(MODULES.iterdir(), key=lambda path: path.name != "kubernetes"):
        print(find(module.name, lambda text: print(text, flush=True)), flush=True)


if __name__ == "__main__":
    main()
