"""A run's own files about itself, for those who read them without a device."""

from __future__ import annotations

import json
from typing import Any

METRICS, SUMMARY = "metrics.jsonl", "summary.json"


def read_rows(text: str) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl; a last row that a kill cut short is left out."""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
