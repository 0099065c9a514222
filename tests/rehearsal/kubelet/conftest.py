from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rehearsal.kubelet import HOST, Kubelet, Names, Network
from rehearsal.plane import CannotRehearse, Plane
from rehearsal.plane.conftest import Programs, programs

__all__ = ["programs"]
TOKENS = ("first-token", "second-token")
"""Of who calls `ops`: one expires, and the next is given out."""


@dataclass
class World:
    """A whole cluster on this machine, with no node yet and no image."""

    network: Network
    plane: Plane
    kubelet: Kubelet


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    try:
        made = Network()
    except CannotRehearse as why:
        pytest.skip(str(why))
    with made:
        yield made


@pytest.fixture(scope="module")
def world(
    programs: Programs, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    kubernetes, operator = programs("kubernetes"), programs("operator-newest")
    names = Names(network.folder / "hosts")
    folder = tmp_path_factory.mktemp("plane")
    tokens = {token: ("ops", "system:masters") for token in TOKENS}
    where: dict[str, Any] = {"address": HOST, "hosts": names.file, "tokens": tokens}
    with (
        Plane(folder, kubernetes, operator, **where) as plane,
        Kubelet(plane.kubeconfig("kubelet"), network, names, {}) as kubelet,
    ):
        yield World(network, plane, kubelet)
