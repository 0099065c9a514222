"""Text to shards of token ids, with Ray Data: once, before training."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from ..errors import InputError, Refused
from .documents import STDLIB, InputFile, list_input
from .packing import Job, Outcome, split_units
from .progress import Prepared, Report, console_report
from .raydata import outcomes
from .shards import INDEX, Index, Shard, check_sizes, read_index, token_dtype, write_index
from .storage import Place, listing, locate
from .tokens import Tokenizer, load_tokenizer
from .workspace import claim, remove, sweep

# Files of 64 to 128 MiB: large enough for a bucket, small enough for a worker's memory.
SHARD_TOKENS = 2**25
Settings = dict[str, str | int]


def prepare(
    input: str,
    shards: str,
    tokenizer: str = "bytes",
    text_field: str = "text",
    *,
    overwrite: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    before_ray: Callable[[], None] = lambda: None,
    report: Report | None = None,
    console: Console | None = None,
) -> Index:
    """Reads `input`, writes its tokens to `shards`, the index last, with the Ray that is connected.

    `before_ray` may connect it: it is called once there is something to do and a place to write to.

    The same input and settings give the same bytes on any cluster. Where `shards` holds whole data
    of the same settings nothing is read or written, unless `overwrite`; data of other settings is
    replaced only with `overwrite`, and stays until the new data is complete. `report` takes the
    place of the progress shown on `console` (stderr).

    Raises InputError (input, tokenizer, settings) and Refused (rights, a full disk, no bucket); the
    place is then as it was before.
    """
    console = console or Console(stderr=True)
    encoder = load_tokenizer(tokenizer)
    settings = _settings(input, encoder, text_field, shard_tokens)
    root = locate(shards)
    if not overwrite and (index := _prepared(root, settings, console)):
        return index
    files = _input_files(input, root)
    with claim(root) as permit:
        before_ray()
        job = Job(root.url, permit.url, encoder, text_field, shard_tokens)
        found = _shards(files, job, report, console)
        index = _publish(root, encoder, _source(settings, files), found)
    sweep(root, index)
    console.out(f"prepare: done, {_totals(index)} in {root.url}", highlight=False)
    return index


def _settings(input: str, encoder: Tokenizer, text_field: str, shard_tokens: int) -> Settings:
    if shard_tokens < 1:
        raise InputError(f"a shard of {shard_tokens} tokens", "shard_tokens", "give 1 or more")
    return {
        "input": input,
        "tokenizer": encoder.name,
        "text_field": text_field,
        "shard_tokens": shard_tokens,
    }


def _source(settings: Settings, files: list[InputFile]) -> Settings:
    return settings | {"files": len(files), "bytes": sum(file.size for file in files)}


def _totals(index: Index) -> Prepared:
    read = int(index.source.get("bytes", 0))
    return Prepared(read, read, index.tokens, index.documents, len(index.shards))


def _prepared(root: Place, settings: Settings, console: Console) -> Index | None:
    """What is there already, if whole. Raises InputError for data of other settings."""
    if INDEX not in listing(root):
        return None
    index = read_index(root.url)
    _same(index, settings)
    try:
        check_sizes(index)
    except InputError as fault:
        console.out(f"prepare: {fault.what}; preparing again", highlight=False)
        return None
    known = f"{root.url} already holds {_totals(index)}, made with these settings"
    console.out(f"prepare: nothing to do, {known}", highlight=False)
    return index


def _same(index: Index, settings: Settings) -> None:
    there = {key: index.source.get(key) for key in settings}
    differing = [key for key in settings if there[key] != settings[key]]
    if differing:
        changes = "; ".join(f"{key}: {there[key]} there, {settings[key]} now" for key in differing)
        what = f"this place holds data made with other settings ({changes})"
        remedy = "name another place in [data] shards, or replace what is there with --overwrite"
        raise InputError(what, index.root, remedy)


def _input_files(input: str, root: Place) -> list[InputFile]:
    """Raises InputError also where shards would be read as text the next time."""
    files = list_input(input)
    under = root.url.rstrip("/") + "/"
    around = "" if input == STDLIB else locate(input).url.rstrip("/") + "/"
    if (around and under.startswith(around)) or any(file.url.startswith(under) for file in files):
        remedy = "name a place for the shards outside of [data] input"
        raise InputError("the shards would lie inside of the input", root.url, remedy)
    return files


def _shards(
    files: list[InputFile], job: Job, report: Report | None, console: Console
) -> list[Shard]:
    if report:
        return _collect(files, job, report)
    with console_report(console) as shown:
        return _collect(files, job, shown)


def _collect(files: list[InputFile], job: Job, report: Report) -> list[Shard]:
    """All shards in the order of the input. Raises the fault of the first unit that has one."""
    units = split_units(files)
    sizes = [sum(file.size for file in unit) for unit in units]
    state = Prepared(0, sum(sizes), 0, 0, 0)
    found: list[Outcome] = []
    for outcome in outcomes(units, job):
        found.append(outcome)
        if outcome.fault:
            _stop(job)
        state = state.plus(outcome.shard, sizes[outcome.unit] if outcome.ended else 0)
        report(state)
    found.sort(key=lambda outcome: (outcome.unit, outcome.part))
    for outcome in found:
        if outcome.fault:
            raise outcome.fault
    if sum(outcome.ended for outcome in found) < len(units):
        remedy = "wait for that one, then run again"
        raise Refused("another run of prepare has taken this place over", job.root, remedy)
    return [outcome.shard for outcome in found if outcome.shard]


def _stop(job: Job) -> None:
    """Takes the permit away, so that the units under way end soon.

    Waiting for them makes sure that nothing is written after the clean-up.
    """
    remove(locate(job.root), [locate(job.permit).name])


def _publish(root: Place, encoder: Tokenizer, source: Settings, found: list[Shard]) -> Index:
    if not found:
        remedy = "correct [data] input; all its documents are empty"
        raise InputError("the input holds no text", str(source["input"]), remedy)
    index = Index(
        root=root.url,
        tokenizer=encoder.name,
        vocab_size=encoder.vocab_size,
        end_of_text=encoder.end_of_text,
        dtype=token_dtype(encoder.vocab_size),
        source=source,
        shards=tuple(found),
    )
    try:
        check_sizes(index)
    except InputError as fault:
        remedy = "name storage that all machines of the cluster share, such as gs://BUCKET/PATH"
        raise Refused(f"{fault.what} after it was written", root.url, remedy) from fault
    write_index(index)
    return index
