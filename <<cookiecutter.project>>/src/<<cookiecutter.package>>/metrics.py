"""The file of a run's metrics, for those who read it without a device."""

from __future__ import annotations

import json
from typing import Any

METRICS = "metrics.jsonl"


def read_rows(text: str) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl; a last row that a kill cut short is left out."""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
