"""Results as Markdown, for the summary of a workflow; and the picture of a loss curve."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from ..errors import Refused
from .cost import Cost
from .report import Report
from .startup import Phase

POINTS = 40
"""The most that a diagram in a summary shows readably."""


def append(path: Path | None, text: str) -> None:
    """Nothing where there is no file to append to. Raises Refused."""
    if path is None:
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise Refused(
            f"it cannot be written: {error.strerror}", str(path), "name another --summary"
        ) from None


def run_markdown(report: Report) -> str:
    rows = [f"| {name} | {value} |" for name, value in run_rows(report)]
    table = ["| | |", "|---|---|", *rows]
    diagram = _diagram(report.points)
    return "\n".join([f"## Run {report.run}: {report.state}", "", *diagram, *table, ""])


def run_rows(report: Report) -> list[tuple[str, str]]:
    rate, loss = report.tokens_per_second, report.points[-1][1] if report.points else None
    return [
        ("steps", f"{report.step} of {report.steps}"),
        ("loss", "none yet" if loss is None else f"{loss:.4f}"),
        ("tokens/s", "unknown" if rate is None else f"{rate:,.0f}"),
        ("MFU", _share(report.mfu)),
        ("goodput", _share(report.goodput)),
        ("duration", "unknown" if report.seconds is None else f"{report.seconds / 60:.0f} min"),
        ("start-up", _startup(report.startup)),
        *_rented(report),
        ("checkpoint", report.checkpoint or "none"),
        ("loss curve", report.picture if report.points else "none yet"),
        ("to go on", _next(report)),
    ]


def _rented(report: Report) -> list[tuple[str, str]]:
    """Nothing of a run that no cluster knows."""
    if report.usd is None and not report.chip_hours:
        return []
    cost = f"{Cost(0, report.usd, exact=False)}, {report.chip_hours:.1f} chip-hours"
    return [("chips", f"{report.chips} ({report.slice})"), ("cost", cost)]


def _startup(phases: tuple[Phase, ...]) -> str:
    told = [f"{name.replace('_', ' ')} {seconds:.0f} s" for name, seconds in phases]
    return ", ".join(told) or "unknown"


def _next(report: Report) -> str:
    if report.finished:
        return f"raise train.steps and start run {report.run} again: it goes on from its checkpoint"
    if report.checkpoint is None:
        return f"start run {report.run} again: it has no checkpoint, and begins at its first step"
    return f"start run {report.run} again: it goes on from its newest checkpoint"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _diagram(points: tuple[tuple[int, float], ...]) -> list[str]:
    """A picture that a summary can show: it takes no file of ours."""
    if len(points) < 2:
        return []
    stride = -(-len(points) // POINTS)
    losses = ", ".join(f"{loss:.4g}" for _, loss in points[::-stride][::-1])
    axis = f'    x-axis "step" {points[0][0]} --> {points[-1][0]}'
    chart = ["xychart-beta", axis, '    y-axis "loss"', f"    line [{losses}]"]
    return ["```mermaid", *chart, "```", ""]


def picture(report: Report) -> str:
    """The loss curve as SVG."""
    # It takes a second to load, and only this needs it.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([step for step, _ in report.points], [loss for _, loss in report.points])
    axes.set(xlabel="step", ylabel="loss", title=f"{report.run}, {report.slice}")
    axes.grid(alpha=0.3)
    drawn = StringIO()
    figure.savefig(drawn, format="svg")
    return drawn.getvalue()


def sweep_markdown(result: dict[str, Any], now: float) -> str:
    """`result` as `texts.sweep` gives it."""
    looked, removed = result["looked_at"], result["removed"]
    if not looked and not result["unseen"]:
        return "Nothing of this project is in the cloud.\n"
    verb = "would be removed" if removed is None else "to be removed"
    doomed = sum(item["fate"] == "remove" for item in looked)
    head = [f"## Sweep: {doomed} {verb}, {len(result['stayed'])} still there", ""]
    table = ["| | what | run | why | for | cost |", "|---|---|---|---|---|---|"]
    rows = [_swept(item, now) for item in looked]
    unseen = [f"- could not be looked at: {text}" for text in result["unseen"]]
    return "\n".join([*head, *table, *rows, "", *unseen, ""])


def _swept(item: dict[str, Any], now: float) -> str:
    made = item["created_at"]
    age = "?" if made is None else f"{(now - made) / 3600:.1f} h"
    cost = "" if item["chip_hours"] is None else str(Cost(0, item["usd"], exact=False))
    words = (item["fate"], item["thing"], item["run"], item["reason"], age, cost)
    return f"| {' | '.join(words)} |"
