"""Which chips Google has: by zone, kind and machine type."""

from __future__ import annotations

from google.cloud.container_v1 import types

Key = tuple[str, str, str]
What = str | int


class Capacity:
    """ "available" unless set: "stockout", "quota", "never" (an operation without an end), "queue"
    (flex-start waits without a word), or how many machines there are."""

    def __init__(self) -> None:
        self._what: dict[Key, What] = {}
        self._later: list[tuple[float, Key, What]] = []

    def set(self, zone: str, kind: str, machine_type: str, what: What) -> None:
        self._what[zone, kind, machine_type] = what

    def after(self, moment: float, zone: str, kind: str, machine_type: str, what: What) -> None:
        """From this moment on, in seconds since the epoch."""
        self._later.append((moment, (zone, kind, machine_type), what))

    def tick(self, now: float) -> None:
        for due in [later for later in self._later if later[0] <= now]:
            self._later.remove(due)
            self._what[due[1]] = due[2]

    def take(self, key: Key, machines: int) -> str:
        """Why there are none; empty where these machines were given."""
        what = self._what.get(key, "available")
        if isinstance(what, int):
            if what < machines:
                return "stockout"
            self._what[key] = what - machines
            return ""
        return "" if what == "available" else what

    def give_back(self, key: Key, machines: int) -> None:
        what = self._what.get(key)
        if isinstance(what, int):
            self._what[key] = what + machines


def kind_of(config: types.NodeConfig) -> str:
    if config.spot:
        return "spot"
    if config.flex_start:
        return "flex-start"
    if config.reservation_affinity.values:
        return f"reservation:{config.reservation_affinity.values[0]}"
    return "on-demand"


def words(what: str, zone: str, machine_type: str) -> str:
    """Google's own, for what `take` says."""
    if what == "quota":
        return (
            "Google Compute Engine: QUOTA_EXCEEDED: Quota 'TPU_LITE_PODSLICE_V5' exceeded. "
            f"Limit: 0.0 in region of {zone}."
        )
    return (
        "Google Compute Engine: ZONE_RESOURCE_POOL_EXHAUSTED: the zone "
        f"'projects/p/zones/{zone}' does not have enough resources available for {machine_type}."
    )
