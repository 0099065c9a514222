from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.kubelet import HOST, Image, Kubelet, Names, Network
from rehearsal.kubelet.alone import IMAGE, Heard
from rehearsal.kubelet.asking import NODE, Cluster
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.world import World
from rehearsal.plane import CannotRehearse, Plane
from rehearsal.plane.conftest import Programs, programs

__all__ = ["programs"]


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
    where: dict[str, Any] = {"address": HOST, "hosts": names.file}
    with (
        Plane(folder, kubernetes, operator, **where) as plane,
        Kubelet(plane.kubeconfig("kubelet"), network, names, {}) as kubelet,
    ):
        yield World(network, plane, kubelet)


@pytest.fixture(scope="module")
def cluster(world: World) -> Iterator[Cluster]:
    """With one node and the image `python`."""
    world.kubelet.desk.images["python"] = Image(Path(sys.prefix))
    world.kubelet.nodes.add(NODE)
    yield Cluster(world)
    world.kubelet.lose(NODE.name)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def desk(network: Network, heard: Heard) -> Desk:
    names = Names(network.folder / "hosts")
    devices = {"TPU_WORKER_ID": "0"}
    image = Image(Path(sys.prefix), variables={"FROM_IMAGE": "yes"})
    return Desk(heard, network, names, {IMAGE: image}, lambda pod: devices)  # type: ignore[arg-type]
