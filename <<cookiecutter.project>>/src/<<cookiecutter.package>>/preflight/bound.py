"""The shortest time that a step can take on a chip, and what it would cost at that.

A bound, not a forecast: nothing is waited for, and computing, memory and network overlap without a
gap. What no compiler knows (input, hosts, data-centre network, stragglers) only adds to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..slices import GENERATIONS, Slice

GIGA = 1e9
HOUR = 3600.0


@dataclass(frozen=True)
class Bound:
    """Seconds of a step in which a chip does nothing else; `ici` is None where the speed of the
    generation's network is not known."""

    compute: float
    hbm: float
    ici: float | None

    @property
    def parts(self) -> dict[str, float]:
        found = {"compute": self.compute, "HBM": self.hbm, "ICI": self.ici}
        return {name: seconds for name, seconds in found.items() if seconds is not None}

    @property
    def seconds(self) -> float:
        return max(self.parts.values())

    @property
    def by(self) -> str:
        """What the time is bound by."""
        return max(self.parts, key=lambda name: self.parts[name])


def bound(one: Slice, flops: float, hbm_bytes: float, sent_bytes: float) -> Bound:
    """From what one device does in a step. A chip's devices share it in equal parts."""
    kind = GENERATIONS[one.generation]
    share = kind.devices_per_chip
    # Google's figure counts both directions; a chip sends with half of it.
    ici = kind.ici_gbps * GIGA / 2 if kind.ici_gbps else None
    return Bound(
        compute=flops * share / one.peak_flops,
        hbm=hbm_bytes * share / (kind.hbm_gbps * GIGA),
        ici=sent_bytes * share / ici if ici else None,
    )


def usd_per_billion_tokens(usd_per_chip_hour: float, chips: int, tokens_per_second: float) -> float:
    return usd_per_chip_hour * chips / HOUR * GIGA / tokens_per_second
