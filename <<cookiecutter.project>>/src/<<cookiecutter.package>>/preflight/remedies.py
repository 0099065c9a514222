"""Settings that would make a step fit, each tried by the compiler before it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..config import Config, Hardware
from ..slices import topologies
from .environment import Say
from .figures import Figures
from .verdict import within

TRIES = 3
"""Of one kind of remedy: each is a compilation."""


@dataclass(frozen=True)
class Remedy:
    """`settings` are what `--set` takes; what fits also keeps the limits of `[preflight]`."""

    settings: tuple[str, ...]
    fits: bool
    share: float
    extrapolated: bool


def remedies(
    config: Config, figures: Figures, judge: Callable[[Config], Figures], say: Say
) -> list[Remedy]:
    """Of each kind what fits first, or the last that was tried."""
    found = []
    for kind in (_recomputed, _in_parts, _smaller, _wider):
        last: Remedy | None = None
        for number, (settings, changed) in enumerate(kind(config, figures)):
            if number == TRIES or (last and last.fits):
                break
            say(f"does not fit; trying {' '.join(settings)}")
            seen = judge(changed)
            fits = within(changed, seen)
            last = Remedy(settings, fits, seen.share, extrapolated=len(seen.depths) > 1)
        found += [last] if last else []
    return found


Candidates = Iterator[tuple[tuple[str, ...], Config]]


def _recomputed(config: Config, figures: Figures) -> Candidates:
    if not config.train.activation_checkpointing:
        changed = replace(config.train, activation_checkpointing=True)
        yield ("train.activation_checkpointing=true",), replace(config, train=changed)


def _in_parts(config: Config, figures: Figures) -> Candidates:
    """More parts; first as many as the excess asks for."""
    train, devices = config.train, config.hardware.devices
    most = train.batch_size // devices
    for parts in range(train.accumulation + 1, most + 1):
        wanted = train.accumulation * figures.share
        if train.batch_size % (parts * devices) == 0 and (parts >= wanted or parts == most):
            changed = replace(train, accumulation=parts)
            yield (f"train.accumulation={parts}",), replace(config, train=changed)


def _smaller(config: Config, figures: Figures) -> Candidates:
    """Smaller batches that still spread over the devices; first what the excess asks for."""
    train = config.train
    unit = train.accumulation * config.hardware.devices
    size = int(train.batch_size / max(figures.share, 1.0)) // unit * unit
    while unit <= size < train.batch_size:
        changed = replace(train, batch_size=size)
        yield (f"train.batch_size={size}",), replace(config, train=changed)
        size = size // 2 // unit * unit


def _wider(config: Config, figures: Figures) -> Candidates:
    """Larger slices of the same generation that the batch spreads over; several stay as many."""
    hardware, train = config.hardware, config.train
    part = train.batch_size // train.accumulation
    # On so many more chips as the excess asks for, each takes its part of it at best.
    least = max(hardware.slice.chips * figures.share, hardware.slice.chips + 1)
    for topology in topologies(hardware.generation):
        larger = _on(hardware, topology)
        if larger and larger.slice.chips >= least and part % larger.devices == 0:
            yield (f"hardware.topology={topology}",), replace(config, hardware=larger)


def _on(hardware: Hardware, topology: str) -> Hardware | None:
    """None where a mesh of this topology cannot have the axes that the settings ask for."""
    try:
        return replace(hardware, topology=topology)
    except ValueError:
        return None
