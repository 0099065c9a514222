"""The catalog agrees with Ray's own tables, and with the figures Google publishes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ray._private.accelerators.tpu import (
    TPUAcceleratorManager,
    get_chips_per_host,
    infer_tpu_pod_type_from_topology,
    normalize_tpu_accelerator_type,
)
from ray.util import accelerators as ray_types
from ray.util.tpu import get_tpu_version_from_type, get_tpu_worker_resources

from << cookiecutter.package >> import slices
from << cookiecutter.package >>.slices import (
    GENERATIONS,
    UnknownSliceError,
    check_count,
    find,
    topologies,
)

EVERY = [(name, topology) for name in GENERATIONS for topology in topologies(name)]


@pytest.mark.parametrize(("generation", "topology"), EVERY)
def test_ray_counts_the_slice_as_the_catalog_does(generation: str, topology: str) -> None:
    one = find(generation, topology)
    version = get_tpu_version_from_type(one.ray_type)
    assert one.ray_type in vars(ray_types).values()
    assert TPUAcceleratorManager.is_valid_tpu_accelerator_topology(version, topology)
    assert one.chips_per_host == get_chips_per_host(topology, version)
    assert one.pod_type == infer_tpu_pod_type_from_topology(topology, one.ray_type)
    hosts, each = get_tpu_worker_resources(topology, one.ray_type)
    assert (one.hosts, one.chips_per_host) == (hosts, each["TPU"])
    devices = one.devices_per_host // one.chips_per_host
    hosts, each = get_tpu_worker_resources(topology, one.ray_type, tpu_resource_per_chip=devices)
    assert (one.hosts, one.devices_per_host) == (hosts, each["TPU"])


def test_the_slice_ray_finds_on_a_gke_host_of_7x_has_the_catalogs_name() -> None:
    assert normalize_tpu_accelerator_type("tpu7x-8") == find("7x", "2x2x1").pod_type == "v7x-8"


@pytest.mark.parametrize(
    ("generation", "topology", "machine_type", "hosts", "pod_type", "label"),
    [
        ("v5e", "1x1", "ct5lp-hightpu-1t", 1, "v5litepod-1", "tpu-v5-lite-podslice"),
        ("v5e", "2x2", "ct5lp-hightpu-4t", 1, "v5litepod-4", "tpu-v5-lite-podslice"),
        ("v5e", "2x4", "ct5lp-hightpu-8t", 1, "v5litepod-8", "tpu-v5-lite-podslice"),
        ("v5e", "4x4", "ct5lp-hightpu-4t", 4, "v5litepod-16", "tpu-v5-lite-podslice"),
        ("v5e", "16x16", "ct5lp-hightpu-4t", 64, "v5litepod-256", "tpu-v5-lite-podslice"),
        ("v6e", "2x4", "ct6e-standard-8t", 1, "v6e-8", "tpu-v6e-slice"),
        ("v6e", "4x8", "ct6e-standard-4t", 8, "v6e-32", "tpu-v6e-slice"),
        ("v5p", "2x2x1", "ct5p-hightpu-4t", 1, "v5p-8", "tpu-v5p-slice"),
        ("v5p", "8x8x8", "ct5p-hightpu-4t", 128, "v5p-1024", "tpu-v5p-slice"),
        ("v5p", "16x16x16", "ct5p-hightpu-4t", 1024, "v5p-8192", "tpu-v5p-slice"),
        ("v4", "2x2x1", "ct4p-hightpu-4t", 1, "v4-8", "tpu-v4-podslice"),
        ("v4", "4x4x4", "ct4p-hightpu-4t", 16, "v4-128", "tpu-v4-podslice"),
        ("v4", "12x12x16", "ct4p-hightpu-4t", 576, "v4-4608", "tpu-v4-podslice"),
        ("7x", "2x2x1", "tpu7x-standard-4t", 1, "v7x-8", "tpu7x"),
        ("7x", "8x8x8", "tpu7x-standard-4t", 128, "v7x-1024", "tpu7x"),
    ],
)
def test_published_slices(
    generation: str, topology: str, machine_type: str, hosts: int, pod_type: str, label: str
) -> None:
    one = find(generation, topology)
    assert (one.machine_type, one.hosts) == (machine_type, hosts)
    assert (one.pod_type, one.accelerator_label) == (pod_type, label)
    assert one.multi_host == (hosts > 1)


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_generation_is_whole(name: str) -> None:
    kind = GENERATIONS[name]
    names = topologies(name)
    assert len(set(names)) == len(names) == len(kind.single_host) + len(kind.multi_host)
    chips = [find(name, topology).chips for topology in names]
    assert chips == sorted(chips)
    assert all(not find(name, topology).multi_host for topology in kind.single_host)
    assert all(find(name, topology).multi_host for topology in kind.multi_host)
    assert not kind.zones or kind.default_zone in kind.zones


def test_a_chips_figures_are_those_of_its_generation() -> None:
    one = find("v5e", "4x4")
    assert one.peak_flops == 197e12
    assert one.hbm_gib == 16
    assert find("7x", "2x2x1").devices_per_host == 8
    assert find("v5p", "2x2x1").devices_per_host == 4


@pytest.mark.parametrize(
    ("generation", "topology", "says"),
    [
        ("v5", "2x2", 'no TPU generation "v5": choose v5e, v5p,'),
        ("V6E", "2x2", 'no TPU generation "V6E": choose v6e,'),
        ("", "2x2", "choose v5e, v6e, v5p, v4 or 7x"),
        ("v5e", "2x8", 'v5e has no topology "2x8": 4x4,'),
        ("v5p", "2x2", 'v5p has no topology "2x2": 2x2x1,'),
        ("v6e", "32x32", 'v6e has no topology "32x32": 16x16, 8x16,'),
        ("v6e", "0x0", 'v6e has no topology "0x0": '),
        ("v6e", "big", 'v6e has no topology "big": '),
        ("v6e", "9" * 5000, "16x16"),
        ("v4", "8x4x4", 'v4 has no topology "8x4x4": 4x4x8,'),
    ],
)
def test_what_there_is_not_is_refused_with_the_nearest_first(
    generation: str, topology: str, says: str
) -> None:
    with pytest.raises(UnknownSliceError) as refusal:
        find(generation, topology)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("generation", "topology", "slices_", "says"),
    [
        ("v5e", "4x4", 0, "1 to 64"),
        ("v5e", "4x4", 65, "1 to 64"),
        ("v5e", "2x2", 2, "topology 4x4 up"),
        ("v5p", "2x2x1", 2, "topology 2x2x2 up"),
    ],
)
def test_slices_that_cannot_train_together(
    generation: str, topology: str, slices_: int, says: str
) -> None:
    with pytest.raises(UnknownSliceError, match=says):
        check_count(find(generation, topology), slices_)


def test_slices_that_can() -> None:
    for generation, topology in EVERY:
        one = find(generation, topology)
        check_count(one, 64 if one.multi_host else 1)


def test_the_file_works_alone() -> None:
    """Without its package and without any library."""
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['find']('v5e', '4x4').hosts)"
    command = [sys.executable, "-I", "-S", "-c", code, slices.__file__]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "4\n"
