"""The parts of a cluster that are made once: definitions, webhooks, operators, service accounts."""

from __future__ import annotations

from .accounts import IDENTITY
from .kube import FIELD_MANAGER, NAMESPACE, Kube, Object


class KubeSetup(Kube):
    """One method, one request, except lists."""

    def definition(self, name: str) -> Object:
        """A custom resource's definition, like "rayjobs.ray.io". Raises Missing, Failure."""
        get = self._custom.get_cluster_custom_object
        words = ("apiextensions.k8s.io", "v1", "customresourcedefinitions", name)
        return self._one(f"look at the definition of {name}", get, *words)

    def webhooks(self) -> list[Object]:
        """The mutating ones."""
        kind = "mutatingwebhookconfigurations"
        words = ("admissionregistration.k8s.io", "v1", kind)
        return self._pages(kind, self._custom.list_cluster_custom_object, *words)

    def deployments(self) -> list[Object]:
        """Those in every namespace."""
        method = self._custom.list_cluster_custom_object
        return self._pages("deployments", method, "apps", "v1", "deployments")

    def service_account(self, name: str) -> Object:
        """Raises Missing, Failure."""
        read = self._core.read_namespaced_service_account
        return self._one(f"look at service account {name}", read, name, NAMESPACE)

    def apply_service_account(self, name: str, acts_as: str) -> Object:
        """Server-side apply: pods with it act as the Google service account `acts_as`."""
        body = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "annotations": {IDENTITY: acts_as}},
        }
        return self._one(
            f"apply service account {name}",
            self._core.patch_namespaced_service_account,
            *(name, NAMESPACE, body),
            field_manager=FIELD_MANAGER,
            force=True,
            _content_type="application/apply-patch+yaml",
        )
