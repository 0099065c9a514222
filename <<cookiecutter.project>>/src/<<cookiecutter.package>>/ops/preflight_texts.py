"""What pre-flight found, as text for a terminal and as Markdown for a workflow's summary."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from ..errors import Failure
from ..preflight.figures import DEPTHS
from .texts import drawn, pairs

Result = dict[str, Any]
GIB = 2**30
HEAD = ("slice", "chips", "fits", "HBM of a chip", "a step, at least", "tokens/s, at most", "$/1e9")
LINE = "~"
"""Before figures that no compiled program has, but the line through two of them."""
HONEST = (
    "At least, not about: in a bound computing, HBM and ICI overlap without a gap.",
    "Input, hosts, the network between slices and slow machines only add to it.",
)
PARTS = {
    "parameters": "parameters",
    "optimizer": "optimizer state",
    "gradients": "gradients, kept between parts",
    "temporary": "activations and all that lives within a step",
    "other": "batch, scalars, padding",
    "code": "the program itself",
}


def text(result: Result) -> str:
    own = result["slices"][0]
    table = Table(*HEAD, box=None)
    for one in result["slices"]:
        table.add_row(*row(one))
    known = details(own)
    lines = ["", f"{own['slice']}, of the settings", pairs(known)] if known else []
    return "\n".join([title(result), drawn(table), *lines, *_remedies(result), *notes(result)])


def markdown(result: Result) -> str:
    head = [f"## Pre-flight: {title(result)}", ""]
    table = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    rows = [f"| {' | '.join(row(one))} |" for one in result["slices"]]
    own = [f"| {name} | {value} |" for name, value in details(result["slices"][0])]
    found = [f"- {line.strip()}" for line in _remedies(result)]
    own_table = (
        ["", f"| {result['slices'][0]['slice']}, of the settings | |", "|---|---|", *own, ""]
        if own
        else [""]
    )
    return "\n".join([*head, *table, *rows, *own_table, *found, "", *notes(result), ""])


def row(one: Result) -> tuple[str, ...]:
    bound, line = one["bound"], LINE if one["extrapolated"] else ""
    usd, rate = one["usd_per_billion_tokens_at_least"], one["tokens_per_second_at_most"]
    return (
        one["slice"],
        str(one["chips"]),
        fits(one),
        f"{line}{size(one['hbm']['used'])} of {size(one['hbm']['limit'])} "
        f"({one['hbm']['share']:.1%})",
        f"{line}{seconds(bound['seconds'])}, by {bound['by']}" if bound else "unknown",
        f"{line}{rate:,.0f}" if rate else "unknown",
        f"{line}{usd:,.2f}" if usd is not None else "unknown",
    )


def fits(one: Result) -> str:
    if not one["fits"]:
        return "NO"
    return "yes" if one["within_limits"] else "above the limit"


def details(one: Result) -> list[tuple[str, str]]:
    parts = one["hbm"]["parts"]
    rows = [(f"HBM: {PARTS[part]}", size(parts[part])) for part in PARTS if parts.get(part)]
    if one["bound"]:
        ratio = one["flops"] / one["model_flops"]
        flops = f"{one['flops']:.4g} a chip and step, {ratio:.3f} times the model's own"
        rows.append(("FLOPs", flops))
        rows.append(("through HBM", f"{size(one['hbm_bytes'])} a chip and step"))
        rows += [_collective(kind, found) for kind, found in one["collectives"].items()]
        rows.append(("each alone, at least", _alone(one["bound"])))
    return rows


def _collective(kind: str, found: Result) -> tuple[str, str]:
    return f"{kind} x {found['count']:.0f}", f"{size(found['sent_bytes'])} sent by a chip"


def _alone(bound: Result) -> str:
    names = {"compute": "compute", "HBM": "hbm", "ICI": "ici"}
    known = {name: bound[key] for name, key in names.items() if bound[key] is not None}
    return ", ".join(f"{name} {seconds(value)}" for name, value in known.items())


def notes(result: Result) -> list[str]:
    found = [*HONEST, f"Prices of {result['prices_checked']}, in ops/prices.toml."]
    if any(one["extrapolated"] for one in [*result["slices"], *result["remedies"]]):
        depths = " and ".join(map(str, DEPTHS))
        found.insert(0, f"{LINE} extrapolated from {depths} layers; --whole compiles all of them.")
    return ["", *found]


def excused(result: Result) -> str:
    return f"The step is not compiled before it rents: {result['excused']}."


def failed(failure: Failure) -> str:
    """As Markdown."""
    lines = [
        f"**{failure.what}**",
        "",
        f"- where: {failure.where}",
        f"- to do: {failure.remedy}",
        "",
    ]
    return "\n".join(lines)


def title(result: Result) -> str:
    """Model and batch: what all the figures depend on."""
    model = f"{result['model']} with {result['parameters'] / 1e6:,.1f} million parameters"
    length, parts = result["sequence_length"], result["accumulation"]
    sequences = f"{result['tokens_per_step'] // length:,} sequences of {length:,} tokens a step"
    cut = f" in {parts} parts" if parts > 1 else ""
    return f"{model}, a vocabulary of {result['vocabulary']:,}, {sequences}{cut}"


def _remedies(result: Result) -> list[str]:
    return [
        f"  {'enough' if one['fits'] else 'not enough'}: "
        f"{' '.join(one['settings'])}, with {LINE * one['extrapolated']}{one['share']:.1%} of HBM"
        for one in result["remedies"]
    ]


def size(value: float) -> str:
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    steps = 0
    while value >= 1024 and steps < len(units) - 1:
        value, steps = value / 1024, steps + 1
    return f"{value:.{2 if steps else 0}f} {units[steps]}"


def seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"
