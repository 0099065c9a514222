"""What would be refused, or wait for ever, in manifests that were changed or written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ..config import Config
from ..slices import GENERATIONS, Slice, UnknownSliceError, find
from .pods import TPU_RESOURCE

Object = dict[str, Any]

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
LONGEST_NUMBER = 4
MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
"""The API server takes any word."""


def misfits(folder: Path, config: Config) -> list[str]:
    """A line for each, with its file; of the RayJobs and RayClusters in all files of `folder`."""
    files = sorted(file for ending in ("yaml", "yml") for file in folder.glob(f"*.{ending}"))
    return [f"{folder.name}/{file.name}: {why}" for file in files for why in _file(file, config)]


def _file(file: Path, config: Config) -> Iterator[str]:
    try:
        objects = list(yaml.safe_load_all(file.read_text("utf-8")))
    except Exception as fault:  # PyYAML lets through whatever a date or a number raises
        yield f"it cannot be read as YAML: {' '.join(str(fault).split()) or type(fault).__name__}"
        return
    for found in _each(objects):
        spec = _object(found.get("spec"))
        if found.get("kind") == "RayCluster":
            yield from _cluster(spec, config)
        elif found.get("kind") == "RayJob":
            yield from _cluster(_object(spec.get("rayClusterSpec")), config)
            if (mode := spec.get("submissionMode", MODES[0])) not in MODES:
                yield f"submissionMode {mode!r} is none of KubeRay's: {', '.join(MODES)}"


def _each(found: list[object]) -> Iterator[Object]:
    """The objects of a file, those in a List too."""
    for one in map(_object, found):
        if str(one.get("kind")).endswith("List"):
            yield from _each(_items(one.get("items")))
        else:
            yield one


def _cluster(spec: Object, config: Config) -> Iterator[str]:
    head = _object(spec.get("headGroupSpec"))
    if _chips(head):
        yield "the head asks for chips: it would take a host of the slice"
    yield from _image("the head", head, config)
    for group in map(_object, _items(spec.get("workerGroupSpecs"))):
        name = f"worker group {group.get('groupName', '?')}"
        if _is_for_chips(group):
            yield from (f"{name}: {why}" for why in _group(group, config))
        yield from _image(name, group, config)


def _is_for_chips(group: Object) -> bool:
    """A group without any sign of chips works beside the slice, on CPU machines."""
    selector = _object(_pod(group).get("nodeSelector"))
    return bool(selector.keys() & {ACCELERATOR, TOPOLOGY}) or TPU_RESOURCE in str(group)


def _group(group: Object, config: Config) -> Iterator[str]:
    if not _chips(group):
        yield f"no container has whole chips as its limit of {TPU_RESOURCE}"
    if TPU_RESOURCE in str(_object(group.get("rayStartParams")).get("resources")):
        yield f'Ray knows chips as "TPU", not {TPU_RESOURCE}: no worker would ever be placed'
    selector = _object(_pod(group).get("nodeSelector"))
    lacking = [key for key in (ACCELERATOR, TOPOLOGY) if key not in selector]
    if lacking:
        yield f"nodeSelector lacks {' and '.join(lacking)}: the TPU webhook refuses the cluster"
        return
    one = _slice(selector)
    if one is None:
        yield f"GKE has no {selector[ACCELERATOR]} of topology {selector[TOPOLOGY]}"
        return
    yield from _counts(group, one, config)


def _counts(group: Object, one: Slice, config: Config) -> Iterator[str]:
    hosts, chips, replicas = group.get("numOfHosts"), _chips(group), group.get("replicas")
    if (1 if hosts is None else hosts) != one.hosts:
        yield (
            f"numOfHosts is {'left out' if hosts is None else repr(hosts)} and a slice of "
            f"{one.topology} has {one.hosts}: the TPU webhook refuses the cluster"
        )
    if chips and chips != one.chips_per_host:
        yield f"a pod asks for {chips} chips and a host has {one.chips_per_host}: all or it waits"
    rented, slices = config.hardware.slice, config.hardware.slices
    if replicas is not None and replicas != slices:
        yield f"replicas is {replicas!r} and counts slices, not hosts: run.toml rents {slices}"
    if (one.generation, one.topology) != (rented.generation, rented.topology):
        yield (
            f"it waits for a {one.generation} {one.topology}: run.toml rents "
            f"{rented.generation} {rented.topology}"
        )


def _image(name: str, group: Object, config: Config) -> Iterator[str]:
    """Ray's own images have no torch for TPUs, and not this project's code."""
    for container in _containers(group):
        image, ours = str(container.get("image") or "no image"), config.cloud.registry
        if not image.startswith(f"{ours}/"):
            yield f"{name} runs {image}, not of {ours}: it has neither `train` nor its packages"


def _slice(selector: Object) -> Slice | None:
    for generation, kind in GENERATIONS.items():
        if kind.accelerator_label == selector[ACCELERATOR]:
            try:
                return find(generation, str(selector[TOPOLOGY]))
            except UnknownSliceError:
                return None
    return None


def _pod(group: Object) -> Object:
    return _object(_object(group.get("template")).get("spec"))


def _containers(group: Object) -> list[Object]:
    return [_object(one) for one in _items(_pod(group).get("containers"))]


def _chips(group: Object) -> int:
    """Of all containers of one pod."""
    resources = [_object(one.get("resources")) for one in _containers(group)]
    asked = [str(_object(found.get("limits")).get(TPU_RESOURCE, "")) for found in resources]
    return sum(int(text) for text in asked if text.isdecimal() and len(text) <= LONGEST_NUMBER)


def _object(value: object) -> Object:
    """What a person wrote may be anything; the API server says so where it is not an object."""
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []
