"""The kinds of capacity in run.toml's order, each with each zone: what is tried in turn."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Cloud


@dataclass(frozen=True)
class Attempt:
    """One kind in one zone. `reservation` names the one that the kind "reservation" takes from."""

    number: int
    kind: str
    zone: str
    reservation: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{self.reservation and f' {self.reservation}'} in {self.zone}"

    @property
    def waits_for_pods(self) -> bool:
        """Flex-start gives nodes only once pods wait for them: its pool begins empty."""
        return self.kind == "flex-start"


def attempts(cloud: Cloud) -> list[Attempt]:
    """On Autopilot the first alone: a pod names one kind of node in one zone."""
    pairs = [(kind, zone) for kind in cloud.capacity for zone in cloud.zones]
    found = [Attempt(number, *_split(kind, zone)) for number, (kind, zone) in enumerate(pairs)]
    return found[:1] if cloud.cluster_mode == "autopilot" else found


def _split(kind: str, zone: str) -> tuple[str, str, str]:
    name, _, reservation = kind.partition(":")
    return name, zone, reservation
