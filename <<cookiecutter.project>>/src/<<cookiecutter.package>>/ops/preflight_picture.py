"""One picture of several slices: HBM that a step takes, its bound, what tokens cost at that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import Refused
from .preflight_texts import LINE, fits, title

COLOURS = {"yes": "tab:green", "above the limit": "tab:orange", "NO": "tab:red"}


def draw(result: dict[str, Any], file: Path) -> None:
    """Raises Refused where it cannot be written."""
    # It takes a second to load, and only this needs it.
    from matplotlib.figure import Figure

    slices = result["slices"][::-1]
    names = [one["slice"] for one in slices]
    colours = [COLOURS[fits(one)] for one in slices]
    figure = Figure(figsize=(12, 1.5 + 0.5 * len(slices)), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (name, values) in zip(panels, _panels(slices).items(), strict=True):
        bars = axes.barh(names, [value or 0 for value in values], color=colours)
        labels = [_label(value, one) for value, one in zip(values, slices, strict=True)]
        axes.bar_label(bars, labels, padding=3)
        axes.set_title(name)
        axes.margins(x=0.25)
        axes.locator_params(axis="x", nbins=4)
    panels[0].axvline(100 * result["limits"]["hbm_share"], color="black", linewidth=0.8)
    for axes in panels:
        axes.set_xlim(left=0)
    figure.suptitle(title(result))
    _save(figure, file)


def _panels(slices: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    return {
        "HBM of a chip taken, % (line: the limit)": [100 * one["hbm"]["share"] for one in slices],
        "a step takes at least, ms": [
            1000 * one["bound"]["seconds"] if one["bound"] else None for one in slices
        ],
        "$ for 1e9 tokens, at least": [one["usd_per_billion_tokens_at_least"] for one in slices],
    }


def _label(value: float | None, one: dict[str, Any]) -> str:
    mark = LINE if one["extrapolated"] else ""
    return "unknown" if value is None else f"{mark}{value:,.3g}"


def _save(figure: Any, file: Path) -> None:
    try:
        figure.savefig(file, dpi=120)
    except OSError as error:
        raise Refused(
            f"it cannot be written: {error.strerror}", str(file), "name another --picture"
        ) from None
