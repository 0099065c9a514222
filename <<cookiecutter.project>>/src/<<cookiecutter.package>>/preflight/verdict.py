"""What the figures mean for who is about to rent: does it fit, how long at least, for how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..config import Config, Train
from ..errors import InputError
from ..slices import GENERATIONS
from .bound import Bound, bound, usd_per_billion_tokens
from .figures import Figures

GIB = 2**30
Told = tuple[str, str, str]
"""What, where, and what to do."""


@dataclass(frozen=True)
class Price:
    """Dollars for a chip and hour of a kind of capacity; `exact` is False for an upper bound."""

    kind: str
    usd: float
    exact: bool


@dataclass(frozen=True)
class Verdict:
    """Bytes and FLOPs are those of one chip. None stands for what is not known: after a refusal
    the compiler tells only how much memory it wanted."""

    config: Config
    figures: Figures
    parameters: int
    model_flops: float
    price: Price | None

    @property
    def devices_per_chip(self) -> int:
        return GENERATIONS[self.config.hardware.generation].devices_per_chip

    @property
    def extrapolated(self) -> bool:
        return len(self.figures.depths) > 1

    @property
    def bound(self) -> Bound | None:
        found = self.figures
        if found.needed is not None:
            return None
        return bound(self.config.hardware.slice, found.flops, found.hbm_bytes, found.sent_bytes)

    @property
    def tokens_per_second(self) -> float | None:
        """At the bound."""
        found = self.bound
        return self.config.train.tokens_per_step / found.seconds if found else None

    @property
    def usd(self) -> float | None:
        """Of a billion tokens, at the bound."""
        rate, hardware = self.tokens_per_second, self.config.hardware
        if rate is None or self.price is None:
            return None
        chips = hardware.slice.chips * hardware.slices
        return usd_per_billion_tokens(self.price.usd, chips, rate)

    @property
    def name(self) -> str:
        hardware = self.config.hardware
        count = f" x {hardware.slices}" if hardware.slices > 1 else ""
        return f"{hardware.generation} {hardware.topology}{count}"


def verdict(config: Config, figures: Figures, vocabulary: int, price: Price | None) -> Verdict:
    train, hardware = config.train, config.hardware
    shape = config.model.shape(vocabulary)
    step = shape.flops_per_token(train.sequence_length) * train.tokens_per_step
    chips = hardware.slice.chips * hardware.slices
    return Verdict(config, figures, shape.parameters, step / chips, price)


def as_dict(one: Verdict) -> dict[str, Any]:
    figures, chip = one.figures, one.devices_per_chip
    found = one.bound
    return {
        "slice": one.name,
        "chips": one.config.hardware.slice.chips * one.config.hardware.slices,
        "fits": figures.fits,
        "within_limits": within(one.config, figures),
        "hbm": {
            "limit": figures.limit * chip,
            "used": figures.used * chip,
            "share": figures.share,
            "parts": {part: size * chip for part, size in figures.memory.items()},
        },
        "flops": figures.flops * chip if found else None,
        "model_flops": one.model_flops,
        "hbm_bytes": figures.hbm_bytes * chip if found else None,
        "collectives": {
            kind: {"count": count, "sent_bytes": sent * chip}
            for kind, (count, sent) in figures.collectives.items()
        },
        "bound": asdict(found) | {"seconds": found.seconds, "by": found.by} if found else None,
        "tokens_per_second_at_most": one.tokens_per_second,
        "usd_per_billion_tokens_at_least": one.usd,
        "price": asdict(one.price) if one.price else None,
        "compiled_layers": list(figures.depths),
        "extrapolated": one.extrapolated,
        "compile_seconds": figures.compile_seconds,
    }


def too_large(one: Verdict, remedies: Sequence[str]) -> InputError:
    """`remedies` are settings that the compiler found to fit, each for itself."""
    over = (one.figures.used - one.figures.limit) * one.devices_per_chip / GIB
    about = "about " if one.extrapolated else ""
    return InputError(
        f"the step does not fit: it takes {about}{one.figures.share:.1%} of a chip's HBM, "
        f"{over:.2f} GiB too much",
        f"[train], [model] and [hardware] of run.toml, {one.name}",
        f"set one of these, each of which fits: {'; '.join(remedies)}"
        if remedies
        else "combine a smaller batch, train.activation_checkpointing = true and a larger "
        "topology: none of them alone was found to fit",
    )


def within(config: Config, figures: Figures) -> bool:
    """Whether a step fits and keeps the limits of run.toml."""
    return figures.fits and exceeded(Verdict(config, figures, 0, 0.0, None)) is None


def exceeded(one: Verdict) -> InputError | None:
    """All that run.toml does not allow, with the figure, the limit and what to change."""
    found = [told for told in (_full(one), _slow(one)) if told]
    if not found:
        return None
    what, where, remedy = ("; ".join(parts) for parts in zip(*found, strict=True))
    return InputError(what, f"{where}, {one.name}", f"{remedy}; or raise the limit")


def _full(one: Verdict) -> Told | None:
    share, limit = one.figures.share, one.config.preflight.hbm_share
    if share <= limit:
        return None
    recomputes = one.config.train.activation_checkpointing
    recompute = "" if recomputes else "set train.activation_checkpointing = true, "
    return (
        f"the step takes {100 * share:.4g}% of a chip's HBM, and run.toml allows {100 * limit:g}%",
        "preflight.hbm_share",
        f"lower train.batch_size, raise train.accumulation, {recompute}or take a larger topology",
    )


def _slow(one: Verdict) -> Told | None:
    found, limit = one.bound, one.config.preflight.step_seconds
    if not found or not limit or found.seconds <= limit:
        return None
    return (
        f"a step takes {found.seconds:.4g} s at least, and run.toml allows {limit:g} s",
        "preflight.step_seconds",
        f"it is bound by {found.by}: {_faster(found.by, one.config.train)}",
    )


def _faster(by: str, train: Train) -> str:
    if by != "ICI":
        return "lower train.batch_size or take a larger topology"
    if train.accumulation > 1:
        return (
            "lower train.accumulation where memory allows: each part gathers the parameters again"
        )
    return "make the model smaller, or take a generation with faster links: --compare shows which"
