"""The pods of a Ray cluster: the head on a CPU machine, the workers on the hosts of the slices."""

from __future__ import annotations

from typing import Any

from ..config import Config
from .capacity import Attempt, attempts
from .owned import Owner

Object = dict[str, Any]

PACKAGE = __name__.partition(".")[0]
GRACE_SECONDS = 120
"""From the notice that a pod has to go to its end: time for the last checkpoint."""
DRAIN_SECONDS = GRACE_SECONDS - 20
"""The part of it that Ray is told; Ray's own processes end in the rest."""
SERVICE_ACCOUNT = "trainer"
HEAD = {"cpu": "2", "memory": "8Gi"}
SUBMITTER = {"cpu": "500m", "memory": "1Gi"}
USER = 1000
TPU_RESOURCE = "google.com/tpu"
# By chips of the machine, well below what the smallest of these has: a pod that asks for more than
# there is would wait for ever. There is no limit, so the pod may use all of its machine.
HOST = {
    1: {"cpu": "16", "memory": "32Gi"},
    4: {"cpu": "64", "memory": "96Gi"},
    8: {"cpu": "128", "memory": "192Gi"},
}
PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080}
TORCH_TPU_PORT = 8070
TOPOLOGY_SIDES = 3


def cluster(config: Config, image: str, owner: Owner) -> Object:
    """A Ray cluster's spec, as RayJob and RayCluster take it."""
    return {
        "headGroupSpec": _head(config, image, owner),
        "workerGroupSpecs": [_workers(config, image, owner)],
    }


def submitter(image: str, owner: Owner) -> Object:
    """The pod that hands the job to Ray and waits; KubeRay fills in its command."""
    container = {
        "name": "ray-job-submitter",
        "image": image,
        "resources": _both(SUBMITTER),
        "securityContext": _unprivileged(),
    }
    pod = _pod(owner, container)
    pod["spec"] |= {"restartPolicy": "Never", "securityContext": _nobody()}
    return pod


def _head(config: Config, image: str, owner: Owner) -> Object:
    container = {
        "name": "ray-head",
        "image": image,
        "env": _environment(config),
        "ports": [{"containerPort": port, "name": name} for name, port in PORTS.items()],
        "resources": _both(HEAD),
        "securityContext": _unprivileged(),
    }
    pod = _pod(owner, container)
    pod["spec"] |= {"securityContext": _nobody()}
    parameters = {"num-cpus": "0", "dashboard-host": "0.0.0.0"}  # noqa: S104
    return {"rayStartParams": parameters, "template": pod}


def _workers(config: Config, image: str, owner: Owner) -> Object:
    one, slices = config.hardware.slice, config.hardware.slices
    return {
        "groupName": "tpu",
        "numOfHosts": one.hosts,
        "replicas": slices,
        "minReplicas": slices,
        "maxReplicas": slices,
        # Said, because Ray's own detection can come too late on machines that start slowly.
        "rayStartParams": {"resources": f'"{{\\"TPU\\": {one.devices_per_host}}}"'},
        "template": _tpu_pod(config, image, owner),
    }


def _tpu_pod(config: Config, image: str, owner: Owner) -> Object:
    chips = config.hardware.slice.chips_per_host
    tpu = {TPU_RESOURCE: str(chips)}
    container = {
        "name": "ray-worker",
        "image": image,
        "env": [*_environment(config), *_pod_ip(), *_torch_tpu(config)],
        "ports": [{"containerPort": PORTS["metrics"], "name": "metrics"}],
        "resources": {"requests": {**HOST[chips], **tpu}, "limits": tpu},
        "securityContext": {"allowPrivilegeEscalation": False},
        "lifecycle": {"preStop": {"exec": {"command": _drain()}}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
    }
    pod = _pod(owner, container)
    pod["spec"] |= {
        # The TPU's device files are root's; GKE hands them to the container, so it need not be
        # privileged.
        "securityContext": {"runAsUser": 0},
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": _selectors(config, owner),
        "tolerations": _tolerations(config),
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }
    return pod


def _drain() -> list[str]:
    return ["python", "-m", f"{PACKAGE}.drain", str(DRAIN_SECONDS)]


def _selectors(config: Config, owner: Owner) -> dict[str, str]:
    """The kind of slice; and the run's own pools, or on Autopilot the kind of capacity."""
    one = config.hardware.slice
    selectors = {
        "cloud.google.com/gke-tpu-accelerator": one.accelerator_label,
        "cloud.google.com/gke-tpu-topology": one.topology,
    }
    if config.cloud.cluster_mode == "standard":
        return selectors | {"project": owner.project, "run": owner.run}
    return selectors | _autopilot_selectors(*attempts(config.cloud))


def _autopilot_selectors(only: Attempt) -> dict[str, str]:
    kind = {
        "spot": {"cloud.google.com/gke-spot": "true"},
        "flex-start": {"cloud.google.com/gke-flex-start": "true"},
        "reservation": {
            "cloud.google.com/reservation-name": only.reservation.rpartition("/")[2],
            "cloud.google.com/reservation-affinity": "specific",
        },
    }
    return {"topology.kubernetes.io/zone": only.zone, **kind.get(only.kind, {})}


def _tolerations(config: Config) -> list[Object]:
    kinds = {attempt.kind for attempt in attempts(config.cloud)}
    taints = {"spot": "cloud.google.com/gke-spot", "flex-start": "cloud.google.com/gke-queued"}
    keys = [TPU_RESOURCE, *(taint for kind, taint in taints.items() if kind in kinds)]
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _pod(owner: Owner, container: Object) -> Object:
    return {
        "metadata": {"labels": owner.labels()},
        "spec": {"serviceAccountName": SERVICE_ACCOUNT, "containers": [container]},
    }


def _environment(config: Config) -> list[Object]:
    found: list[Object] = [
        _field("NODE_IP", "status.hostIP"),
        {"name": "VBAR_CONTROL_SERVICE_URL", "value": "$(NODE_IP):8353"},
    ]
    if config.hardware.slice.generation == "7x":
        found.append({"name": "RAY_TPU_RESOURCE_PER_CHIP", "value": "2"})
    return found


def _pod_ip() -> list[Object]:
    """By which `drain` finds its node among Ray's."""
    return [_field("POD_IP", "status.podIP")]


def _torch_tpu(config: Config) -> list[Object]:
    """What TorchTPU must know of its slice; the hosts of a larger one have no names yet here."""
    one = config.hardware.slice
    if config.hardware.accelerator != "tpu":
        return []
    sides = [*one.topology.split("x"), "1"][:TOPOLOGY_SIDES]
    found: list[Object] = [{"name": "TORCH_TPU_TOPOLOGY", "value": ",".join(sides)}]
    if not one.multi_host:
        ports = range(TORCH_TPU_PORT, TORCH_TPU_PORT + one.devices_per_host)
        addresses = ",".join(f"localhost:{port}" for port in ports)
        found.append({"name": "TORCH_TPU_SLICEBUILDER_ADDRESSES", "value": addresses})
    return found


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _nobody() -> Object:
    seccomp = {"type": "RuntimeDefault"}
    return {"runAsNonRoot": True, "runAsUser": USER, "seccompProfile": seccomp}


def _unprivileged() -> Object:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _both(resources: dict[str, str]) -> Object:
    return {"requests": dict(resources), "limits": dict(resources)}
