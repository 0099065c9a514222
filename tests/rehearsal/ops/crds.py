"""KubeRay's own definitions, from the Go module that carries them; kept beside the checkout's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

VERSION = "v1.6.0"
"""The newest that the Go module proxy serves; the oldest with preRunningDeadlineSeconds."""
MODULE = "github.com/ray-project/kuberay/ray-operator"
PATIENCE_SECONDS = 300
Object = dict[str, Any]


def definitions() -> Path:
    """The folder of the definitions; skips where they cannot be had."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = home / "ray-tpu-template" / f"kuberay-{VERSION}"
    if not kept.exists():
        fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copytree(_download(), fresh)
        try:
            fresh.rename(kept)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return kept


def _download() -> Path:
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain to fetch KubeRay's definitions with")
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        answer = {"Error": "it gave no answer"}
    if fault := answer.get("Error"):
        pytest.skip(f"the Go module proxy does not serve KubeRay {VERSION}: {fault}")
    return Path(answer["Dir"]) / "config" / "crd" / "bases"


def validator(kind: str) -> jsonschema.Draft202012Validator:
    """Of a whole object; a field that the definition does not have is a fault."""
    text = (definitions() / f"ray.io_{kind}.yaml").read_text("utf-8")
    versions = yaml.load(text, yaml.CSafeLoader)["spec"]["versions"]
    (schema,) = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == "v1"]
    # Of the object's own data a definition says only that it is an object.
    schema["properties"]["metadata"]["x-kubernetes-preserve-unknown-fields"] = True
    return jsonschema.Draft202012Validator(_strict(schema))


def _strict(schema: Any) -> Any:
    """Kubernetes' dialect as JSON Schema."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items()}
    if found.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    keeps = found.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(found.get("properties"), dict) and found.get("type") == "object" and not keeps:
        found.setdefault("additionalProperties", False)
    return found
