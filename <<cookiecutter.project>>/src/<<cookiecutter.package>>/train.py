"""The command that trains: `train --local` here, `train` on the Ray cluster it runs in."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .config import Config
from .console import run_app, show
from .options import CONFIG, ConfigOption, DryRunOption, JsonOption, LocalOption, SetOption
from .prepare import prepare_data
from .settings import load

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")

ASKED_TO_END = 143
"""Exit code of a run that a signal ended after its last checkpoint: 128 + SIGTERM."""

InProcessOption = Annotated[
    bool, typer.Option("--in-process", help="The loop runs in this process, without workers.")
]


@app.command()
def train(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    local: LocalOption = False,
    in_process: InProcessOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train the model of run.toml. The same command goes on from the newest checkpoint.

    Text that has not been turned into tokens yet is prepared first.

    Exit codes: 0 done; 2 wrong input; 3 something is not there; 4 refused (rights, disk full);
    6 the job failed; 143 ended by a signal after saving a last checkpoint.
    """
    settings = load(config, overrides, local)
    if dry_run:
        return show(_plan(settings), as_json, _plan_text)
    summary = _run(settings, local, in_process)
    early = summary["steps"] < summary["of_steps"]
    more = [] if early else [f"train.steps={2 * settings.train.steps}"]
    options = [*["--local"] * local, *["--in-process"] * in_process]
    summary["go_on"] = _go_on(config, [*overrides, *more], options)
    show(summary, as_json, _summary_text)
    if early:
        raise typer.Exit(ASKED_TO_END)
    return None


def _go_on(config: Path, overrides: Sequence[str], options: Sequence[str]) -> str:
    """The same command; of overrides of one key the last one counts."""
    last = {override.partition("=")[0].strip(): override for override in overrides}
    file = [] if config == CONFIG else ["--config", str(config)]
    sets = [word for override in last.values() for word in ("--set", override)]
    return shlex.join(["train", *file, *sets, *options])


def _run(settings: Config, local: bool, in_process: bool) -> dict[str, Any]:
    # Ray and torch take seconds to load: a wrong setting is told before.
    from . import cluster

    if in_process:
        # Ray is started only where there are no tokens yet, and not kept.
        prepare_data(settings, connect=lambda: cluster.connect(local))
        cluster.disconnect()
        return cluster.fit_in_process(settings, bar=sys.stdout.isatty())
    cluster.connect(local)
    prepare_data(settings)
    return cluster.fit(settings)


def _plan(settings: Config) -> dict[str, Any]:
    hardware = settings.hardware
    return {
        "settings": asdict(settings),
        "slice": asdict(hardware.slice),
        "workers": hardware.world,
        "devices": hardware.devices,
        "tokens_per_step": settings.train.tokens_per_step,
    }


def _plan_text(plan: dict[str, Any]) -> str:
    settings = plan["settings"]
    run, train, hardware = (settings[part] for part in ("run", "train", "hardware"))
    return (
        f"would train {settings['model']['preset']} for {train['steps']} steps of "
        f"{plan['tokens_per_step']:,} tokens\n"
        f"  on      {plan['workers']} worker(s), {plan['devices']} device(s), "
        f"accelerator {hardware['accelerator']}\n"
        f"  data    {settings['data']['shards']}\n"
        f"  run     {run['storage']}/{run['name']}"
    )


def _summary_text(summary: dict[str, Any]) -> str:
    mfu = f", MFU {summary['mfu']:.1%}" if summary["mfu"] else ""
    ended = "" if summary["steps"] == summary["of_steps"] else "; ended early, as asked"
    lines = [
        f"{summary['steps']} of {summary['of_steps']} steps done{ended}",
        f"  loss        {_loss(summary)}",
        f"  speed       {summary['tokens_per_second'] or 0:,.0f} tokens/s{mfu}, "
        f"goodput {summary['goodput']:.0%}",
        f"  checkpoint  {summary['folder']}/checkpoints",
        f"  metrics     {summary['folder']}/metrics.jsonl, and for TensorBoard beside it",
        f"  go on       {summary['go_on']}",
    ]
    return "\n".join(lines)


def _loss(summary: dict[str, Any]) -> str:
    if summary["first_loss"] is None:
        return f"no step was left to do after step {summary['went_on_from']}"
    return f"{summary['first_loss']:.4f} -> {summary['last_loss']:.4f}"


def main() -> None:
    run_app(app)


if __name__ == "__main__":
    main()
