"""The command that turns text into token shards; `train` calls it where none are there yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from .config import Config
from .console import run_app, show
from .options import CONFIG, ConfigOption, DryRunOption, JsonOption, LocalOption, SetOption
from .settings import load

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace shards that were made with other settings."),
]


@app.command()
def prepare(
    config: ConfigOption = CONFIG,
    overrides: SetOption = [],  # noqa: B006 (typer gives each call a list of its own)
    local: LocalOption = False,
    overwrite: OverwriteOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read the text of [data] with Ray Data and write its tokens as shards.

    Exit codes: 0 done; 2 wrong input; 3 something is not there; 4 refused (rights, disk full).
    """
    settings = load(config, overrides, local)
    if dry_run:
        return show(_plan(settings), as_json, _plan_text)
    from . import cluster

    cluster.connect(local)
    return show(prepare_data(settings, overwrite), as_json, _done_text)


def prepare_data(
    settings: Config, overwrite: bool = False, connect: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Does nothing where the shards are there already; calls `connect` before Ray is used."""
    from .data import prepare as prepare_shards

    data = settings.data
    index = prepare_shards(
        data.input,
        data.shards,
        data.tokenizer,
        data.text_field,
        overwrite=overwrite,
        before_ray=connect,
    )
    return {"shards": data.shards, "tokens": index.tokens, "documents": index.documents}


def _plan(settings: Config) -> dict[str, Any]:
    data = settings.data
    return {"input": data.input, "tokenizer": data.tokenizer, "shards": data.shards}


def _plan_text(plan: dict[str, Any]) -> str:
    return f"would read {plan['input']} as {plan['tokenizer']} and write {plan['shards']}"


def _done_text(done: dict[str, Any]) -> str:
    return f"{done['tokens']:,} tokens of {done['documents']:,} documents in {done['shards']}"


def main() -> None:
    run_app(app)


if __name__ == "__main__":
    main()
