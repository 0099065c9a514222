"""Results of the verbs as dicts for machines and as text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from ..config import Config
from .capacity import attempts
from .cost import Cost, Prices
from .schedule import HOUR, Schedule

Result = dict[str, Any]
WIDTH = 110


def plan(config: Config, when: Schedule, prices: Prices) -> Result:
    one, cloud = config.hardware.slice, config.cloud
    return {
        "run": config.run.name,
        "slice": f"{one.generation} {one.topology}",
        "slices": config.hardware.slices,
        "machines": one.hosts * config.hardware.slices,
        "machine_type": one.machine_type,
        "chips": one.chips * config.hardware.slices,
        "attempts": [_attempt(config, prices, kind) for kind in attempts(cloud)],
        "attempt_minutes": cloud.attempt_minutes,
        "run_hours": when.run_seconds / HOUR,
        "ended_by": when.by,
        "tries": when.tries,
        "try_hours": when.try_seconds / HOUR,
        "gone_after_hours": when.lifetime_seconds / HOUR,
        "chip_hours": when.most.chip_hours,
        "usd": when.most.usd,
        "prices_checked": prices.checked.isoformat(),
    }


def _attempt(config: Config, prices: Prices, attempt: Any) -> Result:
    price = prices.find(config.hardware.generation, config.cloud.region, attempt.kind)
    return {
        "capacity": str(attempt),
        "usd_per_chip_hour": price.usd if price else None,
        "exact": bool(price and price.exact),
    }


def plan_text(result: Result) -> str:
    money = Cost(result["chip_hours"], result["usd"], exact=False)
    rows = [
        ("run", result["run"]),
        ("slice", f"{result['slice']}, {result['slices']} of it: {result['chips']} chips"),
        ("machines", f"{result['machines']} x {result['machine_type']}"),
        ("capacity", "\n".join(_attempt_text(item) for item in result["attempts"])),
        ("each waited for", f"{result['attempt_minutes']:g} minutes"),
        ("job ends after", f"{result['run_hours']:.1f} h at the latest, by {result['ended_by']}"),
        ("tries", f"{result['tries']}, of {result['try_hours']:.1f} h each"),
        ("swept after", f"{result['gone_after_hours']:.1f} h, whatever happens"),
        ("cost", f"{money} ({result['chip_hours']:.1f} chip-hours)"),
        ("prices", f"as of {result['prices_checked']}, in ops/prices.toml"),
    ]
    return pairs(rows)


def pairs(rows: Iterable[Sequence[str]]) -> str:
    table = Table(show_header=False, box=None)
    for row in rows:
        table.add_row(*row)
    return drawn(table)


def _attempt_text(item: Result) -> str:
    usd = item["usd_per_chip_hour"]
    if usd is None:
        return f"{item['capacity']}: price unknown"
    return f"{item['capacity']}: {'' if item['exact'] else 'at most '}${usd:.2f} a chip and hour"


def provisioned_text(result: Result) -> str:
    pools = ", ".join(result["pools"]) or "no node pools: Autopilot makes nodes for the job"
    return (
        f"run {result['run']} has its slices: {result['capacity']}\n"
        f"  node pools  {pools}\n"
        f"  swept at    {moment(result['expires_at'])}, if nothing removes them before\n"
        "  next        ops submit --image REGISTRY/NAME@sha256:..."
    )


def submitted_text(result: Result) -> str:
    said = "submitted" if result["new"] else "was there already; nothing was started"
    return (
        f"run {result['run']}: {said} (RayJob {result['name']}, {result['state']})\n"
        "  next        ops watch"
    )


def built_text(result: Result) -> str:
    return f"{result['image']}\n  next        ops provision, then ops submit with this --image"


def report_text(result: Result) -> str:
    return _of_each(result, lambda one: f"run {one['run']}: {one['state']}\n{pairs(one['rows'])}")


def _of_each(result: Result, text: Callable[[Result], str]) -> str:
    return "\n".join(text(one) for one in result["runs"]) or "no run is there to be looked at"


def watched_text(result: Result) -> str:
    if "runs" in result:
        return _of_each(result, watched_text)
    if result.get("alive"):
        return f"run {result['run']} goes on by itself, up to its deadline\n  next        ops watch"
    return f"run {result['run']} succeeded\n  next        ops teardown"


def torn_text(result: Result) -> str:
    if "runs" in result:
        return _of_each(result, torn_text)
    if result.get("alive"):
        return f"run {result['run']} is still alive: nothing was removed"
    if "would_remove" in result:
        return "\n".join(["would remove:", *_listed(result["would_remove"])])
    if not result["removed"]:
        return f"nothing of run {result['run']} was there; `ops status` lists all runs"
    lines = [f"nothing is left of run {result['run']}; removed:", *_listed(result["removed"])]
    return "\n".join([*lines, *(f"  evidence    {folder}" for folder in result["evidence"])])


def status_text(result: Result, now: float) -> str:
    table = Table("run", "state", "chips", "age", "cost so far", "expires", box=None)
    for row in result["runs"]:
        cost = str(Cost(0, row["usd"], exact=False))
        age = "?" if row["created_at"] is None else f"{(now - row['created_at']) / 60:.0f} min"
        table.add_row(
            row["run"], row["state"], str(row["chips"]), age, cost, moment(row["expires_at"])
        )
    unseen = [f"could not be looked at: {text}" for text in result["unseen"]]
    shown = drawn(table) if result["runs"] else "no run has anything in the cloud"
    return "\n".join([shown, *unseen])


def cost_text(result: Result) -> str:
    estimate = result["estimate"]
    most = Cost(estimate["chip_hours"], estimate["usd"], exact=False)
    table = Table("since", "until", "chips", "chip-hours", "cost", box=None)
    for entry in result["entries"]:
        cost = Cost(entry["chip_hours"], entry["usd"], exact=False)
        times = (moment(entry["created_at"]), moment(entry["seen_at"]))
        table.add_row(*times, str(entry["chips"]), f"{entry['chip_hours']:.1f}", str(cost))
    had = drawn(table) if result["entries"] else f"run {estimate['run']} has cost nothing yet"
    return f"{had}\na run as it stands in run.toml: {most}, {estimate['chip_hours']:.1f} chip-hours"


def sweep(done: Any, spent: dict[str, Any]) -> Result:
    """`spent` is the ledger's entry of a node pool, by the pool's text."""
    removed = done.removed
    return {
        "looked_at": [_judgement(item, spent.get(str(item.thing))) for item in done.judgements],
        "removed": None if removed is None else [str(thing) for thing in removed.gone],
        "stayed": [str(thing) for thing in removed.stayed] if removed else [],
        "unseen": list(done.unseen),
    }


def _judgement(item: Any, entry: Any) -> Result:
    thing = item.thing
    return {
        "thing": str(thing),
        "run": thing.owner.run,
        "state": thing.state,
        "fate": item.fate,
        "reason": item.reason,
        "created_at": thing.owner.created_at,
        "expires_at": thing.owner.expires_at,
        "chip_hours": entry.chip_hours if entry else None,
        "usd": entry.usd if entry else None,
    }


def sweep_text(result: Result) -> str:
    if not result["looked_at"]:
        return "nothing of this project is in the cloud"
    table = Table("", "what", "run", "state", "why", box=None)
    for item in result["looked_at"]:
        table.add_row(*(item[key] for key in ("fate", "thing", "run", "state", "reason")))
    if result["removed"] is None:
        doomed = sum(item["fate"] == "remove" for item in result["looked_at"])
        return f"{drawn(table)}\n{doomed} would be removed; `ops sweep --yes` does it"
    return f"{drawn(table)}\n{len(result['removed'])} removed, {len(result['stayed'])} still there"


def moment(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _listed(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines] or ["  nothing was there"]


def drawn(table: Table) -> str:
    console = Console(width=WIDTH, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").splitlines())
