"""A cluster's Kubernetes API: Ray jobs and clusters, pods, events and logs, as plain dicts."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from google.auth.credentials import Credentials
from google.auth.transport.requests import Request
from google.cloud.container_v1 import types
from kubernetes import client

from ..errors import InputError
from .faults import GarbledError
from .remote import Missing, Remote

NAMESPACE = "default"
FIELD_MANAGER = "ops"
GROUP, VERSION = "ray.io", "v1"
PAGE = 500
TIMEOUT_SECONDS = 60

Object = dict[str, Any]


class Kube:
    """One method, one request, except lists, which ask once a page."""

    def __init__(self, remote: Remote, credentials: Credentials, cluster: types.Cluster) -> None:
        self._remote = remote
        self._where = f"Kubernetes API of cluster {cluster.name}"
        self._api = client.ApiClient(_configuration(credentials, cluster))
        self._custom = client.CustomObjectsApi(self._api)
        self._core = client.CoreV1Api(self._api)

    def create(self, kind: str, body: Object) -> Object:
        """Strict about fields; `kind` is the plural, like "rayjobs". Raises Exists where there is
        one of this name, be it of an earlier try whose answer was lost; Failure.

        Not server-side apply: after it KubeRay owns fields of a RayJob, and a second try conflicts.
        """
        return self._one(
            f"make {kind} {body['metadata']['name']}",
            self._custom.create_namespaced_custom_object,
            *(GROUP, VERSION, NAMESPACE, kind, body),
            field_manager=FIELD_MANAGER,
            field_validation="Strict",
        )

    def get(self, kind: str, name: str) -> Object:
        """In our namespace. Raises Missing, Failure."""
        get = self._custom.get_namespaced_custom_object
        return self._one(f"look at {kind} {name}", get, GROUP, VERSION, NAMESPACE, kind, name)

    def delete(self, kind: str, found: Object) -> None:
        """Asks to remove this very object, with all that it made. Raises Missing, Exists where
        another one has taken its name, Failure."""
        about = found["metadata"]
        words = (GROUP, VERSION, about.get("namespace", NAMESPACE), kind, about["name"])
        only = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=about["uid"]))
        delete = self._custom.delete_namespaced_custom_object
        options = {"propagation_policy": "Foreground", "body": only}
        self._ask(f"remove {kind} {about['name']}", delete, *words, **options)

    def objects(self, kind: str, selector: str) -> list[Object]:
        """Those in every namespace: whose they are, their labels say."""
        method = self._custom.list_cluster_custom_object
        return self._pages(kind, method, GROUP, VERSION, kind, label_selector=selector)

    def pods(self, selector: str) -> list[Object]:
        method = self._core.list_namespaced_pod
        return self._pages("pods", method, NAMESPACE, label_selector=selector)

    def events(self) -> list[Object]:
        return self._pages("events", self._core.list_namespaced_event, NAMESPACE)

    def log(self, pod: str, seconds: int | None = None) -> str:
        """A pod's log, each line with its time; `seconds`: only what is newer than that.

        Empty where the container has not started, and where its node does not know the pod yet, or
        any more.
        """
        read = self._core.read_namespaced_pod_log
        options: dict[str, Any] = {"timestamps": True, "since_seconds": seconds}
        try:
            return str(self._ask(f"read the log of {pod}", read, pod, NAMESPACE, **options) or "")
        except Missing:
            return ""
        except InputError as refusal:
            if "is waiting to start" in refusal.what:
                return ""
            raise

    def _one(self, what: str, method: Callable[..., Any], *words: Any, **options: Any) -> Object:
        return self._ask(what, method, *words, _whole="metadata", **options)

    def _pages(
        self, kind: str, method: Callable[..., Any], *words: Any, **rest: Any
    ) -> list[Object]:
        found: list[Object] = []
        token = ""
        while True:
            page = dict(rest, limit=PAGE, **({"_continue": token} if token else {}))
            answer = self._ask(f"list {kind}", method, *words, _whole="items", **page)
            found += answer["items"]
            token = (answer.get("metadata") or {}).get("continue", "")
            if not token:
                return found

    def _ask(
        self, what: str, method: Callable[..., Any], *words: Any, _whole: str = "", **options: Any
    ) -> Any:
        def ask() -> Any:
            answer = method(*words, _request_timeout=TIMEOUT_SECONDS, **options)
            plain = self._api.sanitize_for_serialization(answer)
            if _whole and not (isinstance(plain, dict) and plain.get(_whole) is not None):
                raise GarbledError(f"the answer lacks its {_whole}")
            return plain

        return self._remote(what, self._where, ask)


def _configuration(credentials: Credentials, cluster: types.Cluster) -> client.Configuration:
    authority = base64.b64decode(cluster.master_auth.cluster_ca_certificate).decode()
    configuration = client.Configuration(
        host=f"https://{cluster.endpoint}", ca_cert_data=authority, retries=False
    )
    configuration.api_key_prefix = {"authorization": "Bearer"}

    # Not yet a key, but there: the client asks the hook only for keys that it knows.
    configuration.api_key = {"authorization": ""}

    def renew(configuration: client.Configuration) -> None:
        if not credentials.valid:
            credentials.refresh(Request())
        configuration.api_key["authorization"] = credentials.token

    configuration.refresh_api_key_hook = renew
    return configuration
