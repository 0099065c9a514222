"""How the API server is told of the webhook."""

from __future__ import annotations

import base64
from typing import Any

NAME = "kuberay-tpu-webhook"
SYSTEM = ("kube-system", "kube-node-lease")
Object = dict[str, Any]


def registrations(url: str, authority: bytes) -> list[Object]:
    """As the webhook's own project registers it: without it nothing of its kind is made."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    clusters = {"apiGroups": ["ray.io"], "apiVersions": ["*"], "resources": ["rayclusters"]}
    labelled = {"matchLabels": {"app.kubernetes.io/name": "kuberay"}}
    mutating = _hook(f"{url}/mutate", authority, pods) | {"objectSelector": labelled}
    return [
        _registration("Mutating", mutating),
        _registration("Validating", _hook(f"{url}/validate", authority, clusters)),
    ]


def _registration(kind: str, hook: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": f"kuberay-tpu-{kind.lower()}-webhook-cfg"},
        "webhooks": [hook],
    }


def _hook(url: str, authority: bytes, rule: Object) -> Object:
    name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SYSTEM)}
    return {
        "name": f"{NAME}.ray-system.svc",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchExpressions": [name]},
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [{**rule, "operations": ["CREATE"], "scope": "Namespaced"}],
    }
