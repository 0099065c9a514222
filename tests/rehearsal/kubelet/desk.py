"""What all pods of the stand-in share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.kubelet.api import Api, Events
from rehearsal.kubelet.images import Image
from rehearsal.kubelet.names import Names
from rehearsal.kubelet.network import Network

Object = dict[str, Any]
Devices = Callable[[Object], Mapping[str, str]]
"""From a pod to what the device plugin of its node sets in a container that asks for chips."""


@dataclass
class Desk:
    """`images` may be changed while pods run: what is not in it cannot be pulled."""

    api: Api
    network: Network
    names: Names
    images: dict[str, Image]
    devices: Devices
    events: Events = field(init=False)

    def __post_init__(self) -> None:
        self.events = Events(self.api)
