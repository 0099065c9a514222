"""Machines of a pool: they come, are billed, hold pods, and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from google.cloud.container_v1 import types

from rehearsal.ops.simulation.capacity import kind_of

START_SECONDS = 120.0
IDLE_SECONDS = 600.0


@dataclass
class Node:
    name: str
    born: float
    pod: str = ""


@dataclass
class Pool:
    """A node pool: what was asked for, its machines, and when they were last needed."""

    asked: types.NodePool
    hosts: int
    chips: int
    topology: str
    label: str
    nodes: list[Node] = field(default_factory=list)
    needed_at: float = 0.0
    growing_until: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        config = self.asked.config
        return self.asked.locations[0], kind_of(config), config.machine_type

    @property
    def owner(self) -> str:
        return str(self.asked.config.resource_labels.get("run", ""))

    @property
    def labels(self) -> dict[str, str]:
        """Of its nodes."""
        config = self.asked.config
        labels = {
            **config.labels,
            "cloud.google.com/gke-nodepool": self.asked.name,
            "cloud.google.com/gke-tpu-accelerator": self.label,
            "cloud.google.com/gke-tpu-topology": self.topology,
            "topology.kubernetes.io/zone": self.asked.locations[0],
        }
        if config.spot:
            labels["cloud.google.com/gke-spot"] = "true"
        return labels

    def fits(self, selector: dict[str, str], chips: int) -> bool:
        labels = self.labels
        return chips == self.chips and all(labels.get(k) == v for k, v in selector.items())

    def begin(self, now: float) -> None:
        """All machines of the slice are there."""
        self.nodes = [Node(f"{self.asked.name}-{index}", now) for index in range(self.hosts)]
        self.needed_at, self.growing_until = now, None

    def free(self) -> Node | None:
        return next((node for node in self.nodes if not node.pod), None)

    def idle(self, now: float) -> bool:
        if any(node.pod for node in self.nodes):
            self.needed_at = now
        return bool(self.nodes) and now - self.needed_at >= IDLE_SECONDS

    def over(self, now: float) -> bool:
        """Past the longest run that its machines may have."""
        longest = self.asked.config.max_run_duration.total_seconds()
        return bool(longest and self.nodes and now - self.nodes[0].born >= longest)
