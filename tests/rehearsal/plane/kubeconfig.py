"""How a user reaches the plane; JSON is YAML too."""

from __future__ import annotations

import json
from pathlib import Path

from rehearsal.plane.certs import Pair


def write(file: Path, url: str, authority: Path, pair: Pair) -> Path:
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [_named("cluster", server=url, certificate_authority=str(authority))],
                "users": [{"name": "plane", "user": user}],
                "contexts": [_named("context", cluster="plane", user="plane")],
                "current-context": "plane",
            }
        )
    )
    return file


def _named(kind: str, **values: str) -> dict[str, object]:
    return {"name": "plane", kind: {key.replace("_", "-"): value for key, value in values.items()}}
