"""The catalog of TPU slices: generation x topology -> machine type, hosts, chips, labels, names.

Every machine type, label, chip count and peak in this project comes from here. Standard library
only, and no import of this package, so that the file can also be loaded alone by its path.

Source: Google's pages "About TPUs in GKE" and "TPU regions and zones", and Ray's own TPU tables
(`tests/test_slices.py` holds every entry against Ray's functions).
"""

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations_with_replacement
from math import log, prod
from re import fullmatch

# Machines of a multi-host slice have four chips, whatever the generation.
CHIPS_PER_HOST = 4
# Every slice is a node pool of its own, and a cluster makes its pools one after another.
MOST_SLICES = 64


class UnknownSliceError(ValueError):
    """No such generation, or no such topology of it; the message lists those there are."""


@dataclass(frozen=True)
class Generation:
    """One generation of TPU: what a chip can do and how Google and Ray name it.

    `hbm_gib`, `tflops_bf16` and the bandwidths (gigabytes per second) are those of one chip.
    """

    name: str
    accelerator_label: str  # cloud.google.com/gke-tpu-accelerator
    machine_family: str  # before "-4t"
    ray_type: str  # Ray's accelerator_type
    cores_per_chip: int  # Ray's slice names count cores: v4-8 is four chips
    devices_per_chip: int  # as PJRT and Ray's workers see it: v4 and v5p fuse their two cores
    tflops_bf16: float
    hbm_gib: float
    hbm_gbps: float
    ici_gbps: float | None  # between the chips of a slice; None where Google gives no figure
    single_host: tuple[str, ...]
    multi_host: tuple[str, ...]
    default_zone: str
    zones: tuple[str, ...] = ()  # the only ones that have it; empty: several, and they change
    gke_standard: str = ""  # the oldest GKE that has it; empty where every one still offered does
    gke_autopilot: str = ""
    quota: str = ""  # of chips in a region, as Compute Engine counts it; empty: not shown there


@dataclass(frozen=True)
class Slice:
    """The chips that one topology joins, and the machines they sit in.

    `hbm_gib` and `peak_flops` (bf16, per second) are those of one chip.
    """

    generation: str
    topology: str
    machine_type: str
    hosts: int
    chips: int
    chips_per_host: int
    devices_per_host: int
    accelerator_label: str
    ray_type: str
    pod_type: str  # Ray's name of the slice: "v5litepod-16"
    hbm_gib: float
    peak_flops: float

    @property
    def multi_host(self) -> bool:
        """True when the slice spans machines: GKE and Ray treat such slices as one unit."""
        return self.hosts > 1


@dataclass(frozen=True)
class Machine:
    """A machine type by what is in it."""

    generation: str
    chips: int


_FLAT = ("4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x2", "2x2x4", "2x4x4", "4x4x4")
_LARGER = ("4x4x8", "4x8x8", "8x8x8")
# Beyond 4x4x4 a v4 slice is made of cubes of side four; Ray knows them up to 12x12x16.
_V4_LARGER = tuple(
    f"{a}x{b}x{c}"
    for a, b, c in combinations_with_replacement((4, 8, 12, 16), 3)
    if b < 16 and (a, b, c) != (4, 4, 4)
)

GENERATIONS: dict[str, Generation] = {
    generation.name: generation
    for generation in (
        Generation(
            name="v5e",
            accelerator_label="tpu-v5-lite-podslice",
            machine_family="ct5lp-hightpu",
            ray_type="TPU-V5LITEPOD",
            cores_per_chip=1,
            devices_per_chip=1,
            tflops_bf16=197,
            hbm_gib=16,
            hbm_gbps=819,
            ici_gbps=400,
            single_host=("1x1", "2x2", "2x4"),
            multi_host=_FLAT,
            default_zone="us-central1-a",
            quota="TPU_LITE_PODSLICE_V5",
        ),
        Generation(
            name="v6e",
            accelerator_label="tpu-v6e-slice",
            machine_family="ct6e-standard",
            ray_type="TPU-V6E",
            cores_per_chip=1,
            devices_per_chip=1,
            tflops_bf16=918,
            hbm_gib=32,
            hbm_gbps=1638,
            ici_gbps=800,
            single_host=("1x1", "2x2", "2x4"),
            multi_host=_FLAT,
            default_zone="us-central1-b",
            gke_standard="1.31.2-gke.1115000",
            gke_autopilot="1.31.2-gke.1115000",
        ),
        Generation(
            name="v5p",
            accelerator_label="tpu-v5p-slice",
            machine_family="ct5p-hightpu",
            ray_type="TPU-V5P",
            cores_per_chip=2,
            devices_per_chip=1,
            tflops_bf16=459,
            hbm_gib=95,
            hbm_gbps=2765,
            ici_gbps=1200,
            single_host=("2x2x1",),
            multi_host=(*_CUBES, *_LARGER, "8x8x16", "8x16x16", "16x16x16"),
            default_zone="us-central1-a",
        ),
        Generation(
            name="v4",
            accelerator_label="tpu-v4-podslice",
            machine_family="ct4p-hightpu",
            ray_type="TPU-V4",
            cores_per_chip=2,
            devices_per_chip=1,
            tflops_bf16=275,
            hbm_gib=32,
            hbm_gbps=1200,
            ici_gbps=None,
            single_host=("2x2x1",),
            multi_host=(*_CUBES, *_V4_LARGER),
            default_zone="us-central2-b",
            zones=("us-central2-b",),
        ),
        Generation(
            name="7x",
            accelerator_label="tpu7x",
            machine_family="tpu7x-standard",
            ray_type="TPU-V7X",
            cores_per_chip=2,
            devices_per_chip=2,
            tflops_bf16=2307,
            hbm_gib=192,
            hbm_gbps=7380,
            ici_gbps=1200,
            single_host=("2x2x1",),
            multi_host=(*_CUBES, *_LARGER),
            default_zone="us-central1-c",
            gke_standard="1.34.0-gke.2201000",
            gke_autopilot="1.34.1-gke.3084001",
        ),
    )
}


def find(generation: str, topology: str) -> Slice:
    """The slice of one topology, like `find("v5e", "4x4")`.

    Raises:
        UnknownSliceError: no such generation or topology; the message lists them, nearest first.
    """
    if generation not in GENERATIONS:
        nearest = sorted(GENERATIONS, key=lambda name: _unlikeness(generation, name))
        raise UnknownSliceError(f'no TPU generation "{generation}": choose {_either(nearest)}')
    kind = GENERATIONS[generation]
    if topology not in topologies(generation):
        nearest = sorted(topologies(generation), key=lambda name: _distance(topology, name))
        raise UnknownSliceError(f'{generation} has no topology "{topology}": {_either(nearest)}')
    chips = _chips(topology)
    chips_per_host = chips if topology in kind.single_host else CHIPS_PER_HOST
    return Slice(
        generation=generation,
        topology=topology,
        machine_type=f"{kind.machine_family}-{chips_per_host}t",
        hosts=chips // chips_per_host,
        chips=chips,
        chips_per_host=chips_per_host,
        devices_per_host=chips_per_host * kind.devices_per_chip,
        accelerator_label=kind.accelerator_label,
        ray_type=kind.ray_type,
        pod_type=f"{kind.ray_type.removeprefix('TPU-').lower()}-{chips * kind.cores_per_chip}",
        hbm_gib=kind.hbm_gib,
        peak_flops=kind.tflops_bf16 * 1e12,
    )


def machine(machine_type: str) -> Machine:
    """What is in a machine, like `machine("ct5lp-hightpu-4t")`.

    Raises:
        UnknownSliceError: it is no TPU machine.
    """
    for kind in GENERATIONS.values():
        if match := fullmatch(rf"{kind.machine_family}-([1-9][0-9]*)t", machine_type):
            return Machine(kind.name, int(match[1]))
    raise UnknownSliceError(f'"{machine_type}" is no TPU machine')


def check_count(one: Slice, slices: int) -> None:
    """Refuse a number of slices that cannot train together.

    Raises:
        UnknownSliceError: out of range, or several slices of one host each: GKE joins slices over
            the data-centre network (Multislice) only where each is multi-host.
    """
    if not 1 <= slices <= MOST_SLICES:
        raise UnknownSliceError(f"{slices} slices: 1 to {MOST_SLICES} can train together")
    if slices > 1 and not one.multi_host:
        joinable = GENERATIONS[one.generation].multi_host[0]
        raise UnknownSliceError(
            f"{slices} slices of {one.topology}: several slices train together only where each has "
            f"several hosts, and {one.topology} has one; choose 1 slice, or topology {joinable} up"
        )


def topologies(generation: str) -> tuple[str, ...]:
    """All topologies of a generation, smallest first. KeyError: no such generation."""
    kind = GENERATIONS[generation]
    return tuple(sorted((*kind.single_host, *kind.multi_host), key=_chips))


def _chips(topology: str) -> int:
    return prod(int(side) for side in topology.split("x"))


def _distance(asked: str, topology: str) -> tuple[float, float]:
    """How far a topology is from the one asked for: in chips, if it has sides; then in letters."""
    readable = fullmatch(r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){0,3}", asked)
    chips = abs(log(_chips(topology) / _chips(asked))) if readable else 0.0
    return chips, _unlikeness(asked, topology)


def _unlikeness(asked: str, name: str) -> float:
    return -SequenceMatcher(None, asked.lower(), name).ratio()


def _either(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" or " if len(names) > 1 else "") + names[-1]
