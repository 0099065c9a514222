"""What the tests here have in common: a network, a control plane on it, the kubelets' stand-in."""

from __future__ import annotations

from dataclasses import dataclass

from rehearsal.kubelet import Kubelet, Network
from rehearsal.plane import Plane


@dataclass
class World:
    """A whole cluster on this machine, with no node yet and no image."""

    network: Network
    plane: Plane
    kubelet: Kubelet
