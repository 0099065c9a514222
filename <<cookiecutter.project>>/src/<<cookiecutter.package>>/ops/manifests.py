"""The files of k8s/ as objects, by name: the run's job and what it needs around it.

The pods are those of `ops submit`. What only a run knows stays out: an image's digest, a date.
"""

from __future__ import annotations

from typing import Any

from ..config import Config
from .accounts import IDENTITY, account
from .cost import Prices
from .owned import MANAGED_BY, Owner
from .pods import PORTS, SERVICE_ACCOUNT
from .rayjob import raycluster, rayjob
from .schedule import unchecked

Object = dict[str, Any]

NAMESPACE = "default"
IMAGE = "train"
TAG = "latest"
"""`ops build` puts it on each image: these files are written before there is a digest."""
METADATA_SERVER = "169.254.169.254/32"
METADATA_OF_NODE = "169.254.169.252/32"
DNS, HTTP, HTTPS, METADATA_PORT, TPU_CONTROL = 53, 80, 443, 988, 8353
# Where the control plane's tunnel ends, and where Google's Prometheus runs.
SYSTEM, COLLECTORS = ("kube-system", "gke-managed-system"), ("gmp-system", "gke-gmp-system")
NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
# KubeRay's operator from its chart; the add-on's comes through the control plane.
OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}


def manifests(config: Config, prices: Prices) -> dict[str, Object]:
    """`kubectl apply -k` takes all but the Ray cluster, which wants the same chips as the job.

    A budget that is too small for any run is not refused here: `ops plan` says so, and the job
    would end at once.
    """
    owner = Owner(config.run.project, config.run.name)
    image = f"{config.cloud.registry}/{IMAGE}"
    plan = unchecked(config, prices)
    applied = {
        "serviceaccount.yaml": _service_account(config),
        "networkpolicy.yaml": _network_policy(config),
        "podmonitoring.yaml": _pod_monitoring(config),
        "rayjob.yaml": rayjob(config, image, plan, owner),
    }
    return {
        "kustomization.yaml": _kustomization(list(applied), image),
        **applied,
        "raycluster.yaml": raycluster(config, image, plan, owner),
    }


def _kustomization(resources: list[str], image: str) -> Object:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": resources,
        "images": [{"name": image, "newTag": TAG}],
    }


def _service_account(config: Config) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": SERVICE_ACCOUNT,
            "annotations": {IDENTITY: account(config.cloud, "train")},
        },
    }


def _network_policy(config: Config) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _ours(config),
        "spec": {
            "podSelector": _pods(config),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": _ingress(config),
            "egress": _egress(config),
        },
    }


def _ingress(config: Config) -> list[Object]:
    operator = {"namespaceSelector": {}, "podSelector": {"matchLabels": dict(OPERATOR)}}
    return [
        {"from": [{"podSelector": _pods(config)}]},
        {
            "from": [_namespaces(SYSTEM), operator],
            "ports": [_port(PORTS["dashboard"])],
        },
        {"from": [_namespaces(COLLECTORS)], "ports": [_port(PORTS["metrics"])]},
    ]


def _egress(config: Config) -> list[Object]:
    metadata = [{"ipBlock": {"cidr": cidr}} for cidr in (METADATA_SERVER, METADATA_OF_NODE)]
    return [
        {"to": [{"podSelector": _pods(config)}]},
        {"to": metadata, "ports": [_port(HTTP), _port(METADATA_PORT)]},
        {"ports": [_port(DNS, "UDP"), _port(DNS), _port(HTTPS), _port(TPU_CONTROL)]},
    ]


def _pod_monitoring(config: Config) -> Object:
    return {
        "apiVersion": "monitoring.googleapis.com/v1",
        "kind": "PodMonitoring",
        "metadata": _ours(config),
        "spec": {
            "selector": _pods(config),
            "endpoints": [{"port": PORTS["metrics"], "interval": "30s"}],
            "targetLabels": {
                "fromPod": [{"from": "run"}, {"from": "ray.io/node-type", "to": "node_type"}]
            },
        },
    }


def _ours(config: Config) -> Object:
    return {"name": config.run.project, "labels": _labels(config)}


def _labels(config: Config) -> dict[str, str]:
    return {"managed-by": MANAGED_BY, "project": config.run.project}


def _pods(config: Config) -> Object:
    return {"matchLabels": _labels(config)}


def _namespaces(names: tuple[str, ...]) -> Object:
    expression = {"key": NAME_OF_NAMESPACE, "operator": "In", "values": list(names)}
    return {"namespaceSelector": {"matchExpressions": [expression]}}


def _port(number: int, protocol: str = "TCP") -> Object:
    return {"protocol": protocol, "port": number}
