"""What GKE's webhook for TPUs in Ray clusters (1.3) refuses, and what it adds to a worker's pod.

Its module cannot be had, so these are its rules in our words, with its messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

TPU = "google.com/tpu"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
POOL = "cloud.google.com/gke-nodepool"
CLUSTER, GROUP = "ray.io/cluster", "ray.io/group"
REPLICA_NAME, REPLICA = "ray.io/worker-group-replica-name", "ray.io/worker-group-replica-index"
HOST, OLD_REPLICA = "ray.io/replica-host-index", "replicaIndex"
NOT_EQUAL = "Number of workers in worker group not equal to specified topology"
LONGEST_SERVICE_NAME = 50
PROCESS_PORT, MEGASCALE_PORT = 8471, 8081
Object = dict[str, Any]


class Unreadable(Exception):  # noqa: N818
    """The webhook gives up: the caller only hears that it did."""


@dataclass(frozen=True)
class Place:
    """Which slice of the group, and which host of the slice."""

    replica: int
    host: int


def chips(spec: Object) -> int:
    """What all containers of a pod ask for."""
    return sum(_chips(container) for container in spec.get("containers") or [])


def _chips(container: Object) -> int:
    asked = container.get("resources") or {}
    found = [(asked.get(kind) or {}).get(TPU) for kind in ("requests", "limits")]
    return int(next((value for value in found if value), 0))


def hosts(spec: Object) -> int:
    """Raises Unreadable where there is no topology to tell from."""
    topology = (spec.get("nodeSelector") or {}).get(TOPOLOGY, "")
    try:
        return max(math.prod(int(side) for side in topology.split("x")) // chips(spec), 1)
    except ValueError:
        raise Unreadable(f'TPU topology "{topology}" is none') from None


def refusal(cluster: Object) -> str:
    """Why a RayCluster is not admitted, or nothing. Raises Unreadable."""
    for group in cluster["spec"].get("workerGroupSpecs") or []:
        spec = group["template"]["spec"]
        if not chips(spec):
            continue
        if not group.get("numOfHosts"):
            raise Unreadable("workerGroupSpec NumOfHosts not set")
        if hosts(spec) != group["numOfHosts"]:
            return NOT_EQUAL
    return ""


def labelled_place(pod: Object) -> Place | None:
    """Newer operators number the hosts themselves."""
    labels = pod["metadata"]["labels"]
    if REPLICA in labels and HOST in labels:
        return Place(int(labels[REPLICA]), int(labels[HOST]))
    return None


def next_place(pods: list[Object], size: int) -> Place:
    """The lowest that none of the group's living pods holds, for operators that do not number."""
    taken = {_taken(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    places = (Place(*divmod(number, size)) for number in range(len(taken) + 1))
    return next(place for place in places if place not in taken)


def _taken(pod: Object) -> Place | None:
    replica = pod["metadata"]["labels"].get(OLD_REPLICA, "").rpartition("-")[2]
    values = [_value(container, "TPU_WORKER_ID") for container in pod["spec"]["containers"]]
    number = next((value for value in values if value), "")
    return Place(int(replica), int(number)) if replica and number else None


def patch(pod: Object, place: Place) -> list[Object]:
    """JSON patch that tells a worker's pod its place in the slice. Raises Unreadable."""
    spec, size = pod["spec"], hosts(pod["spec"])
    changes = (
        [] if labelled_place(pod) else [_add("/metadata/labels/replicaIndex", _name(pod, place))]
    )
    if size > 1:
        changes += [
            _add("/spec/hostname", f"{_name(pod, place)}-{place.host}"),
            _add("/spec/subdomain", _service(pod)),
            _add("/spec/affinity", _affinity(pod, place)),
        ]
    for number, container in enumerate(spec["containers"]):
        if _chips(container):
            told = [*container.get("env", []), *_variables(pod, container, place, size)]
            changes.append(_add(f"/spec/containers/{number}/env", told))
    return changes


def _add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}


def _name(pod: Object, place: Place) -> str:
    return f"{pod['metadata']['labels'][GROUP]}-{place.replica}"


def _service(pod: Object) -> str:
    """KubeRay's headless service; it cuts long names at their front."""
    name = f"{pod['metadata']['labels'][CLUSTER]}-headless"[-LONGEST_SERVICE_NAME:]
    return name if name[0].isalpha() else f"r{name[1:]}"


def _variables(pod: Object, container: Object, place: Place, size: int) -> list[Object]:
    """What is there already stays."""
    service, name = _service(pod), _name(pod, place)
    names = [f"{name}-{host}.{service}" for host in range(size)]
    newest = pod["spec"]["nodeSelector"].get(ACCELERATOR, "").startswith("tpu7x")
    values: dict[str, str] = {}
    if _value(container, "MEGASCALE_NUM_SLICES"):
        first = f"{pod['metadata']['labels'][GROUP]}-0-0.{service}"
        values["MEGASCALE_SLICE_ID"] = str(place.replica)
        values["MEGASCALE_COORDINATOR_ADDRESS"] = f"{first}:{MEGASCALE_PORT}" if newest else first
        values["MEGASCALE_PORT"] = str(MEGASCALE_PORT)
    if size > 1:
        values["TPU_WORKER_HOSTNAMES"] = ",".join(names)
    if size > 1 and newest:
        values["TPU_PROCESS_ADDRESSES"] = ",".join(f"{one}:{PROCESS_PORT}" for one in names)
        values["TPU_PROCESS_PORT"] = str(PROCESS_PORT)
    values |= {"TPU_WORKER_ID": str(place.host), "TPU_NAME": name}
    own: Object = {"name": "TPU_DEVICE_PLUGIN_HOST_IP", "valueFrom": _field("status.hostIP")}
    address = {"name": "TPU_DEVICE_PLUGIN_ADDR", "value": "$(TPU_DEVICE_PLUGIN_HOST_IP):2112"}
    found: list[Object] = [
        *({"name": key, "value": value} for key, value in values.items()),
        own,
        address,
    ]
    there = {variable["name"] for variable in container.get("env", [])}
    return [variable for variable in found if variable["name"] not in there]


def _field(path: str) -> Object:
    return {"fieldRef": {"fieldPath": path}}


def _value(container: Object, name: str) -> str:
    values = (one.get("value", "") for one in container.get("env") or [] if one["name"] == name)
    return next(values, "")


def _affinity(pod: Object, place: Place) -> Object:
    """A slice's pods share a node pool, and no other slice's come there."""
    labels = pod["metadata"]["labels"]
    key, value = REPLICA_NAME, labels.get(REPLICA_NAME)
    if labelled_place(pod) is None or value is None:
        key, value = OLD_REPLICA, _name(pod, place)
    same, other = _is(key, "In", value), _is(key, "NotIn", value)
    ours, others = _is(CLUSTER, "In", labels[CLUSTER]), _is(CLUSTER, "NotIn", labels[CLUSTER])
    namespaces = {"matchExpressions": [_is("kubernetes.io/metadata.name", "NotIn", "kube-system")]}
    apart = [
        _term(other, ours),
        {**_term(others, _is(key, "Exists")), "namespaceSelector": namespaces},
    ]
    found = dict(pod["spec"].get("affinity") or {})
    for kind, terms in (("podAffinity", [_term(same, ours)]), ("podAntiAffinity", apart)):
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        before = found.get(kind) or {}
        found[kind] = {**before, required: [*before.get(required, []), *terms]}
    return found


def _is(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _term(*expressions: Object) -> Object:
    return {"labelSelector": {"matchExpressions": list(expressions)}, "topologyKey": POOL}
