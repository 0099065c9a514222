"""A Google Cloud project that is not there: GKE, workload policies and Kubernetes with KubeRay.

Made from google-cloud-container's own types, with a clock of its own, and as strict as GKE: what
GKE refuses is refused. The client libraries and the real gcloud speak to it over REST.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from typing import Any

from google.cloud.container_v1 import types

from rehearsal.ops.simulation.clock import Clock
from rehearsal.ops.simulation.faults import KINDS, Call, Fault, Faults
from rehearsal.ops.simulation.gke import Cluster, Gke
from rehearsal.ops.simulation.google_api import GoogleApi
from rehearsal.ops.simulation.kubernetes import Jobs, Kubernetes
from rehearsal.ops.simulation.kubernetes_api import KubernetesApi, Made
from rehearsal.ops.simulation.refusal import Refusal
from rehearsal.ops.simulation.server import (
    Reply,
    Server,
    authority,
    google_refusal,
    kubernetes_refusal,
    local,
)
from rehearsal.ops.simulation.services import Services
from rehearsal.ops.simulation.store import selected

__all__ = ["KINDS", "Call", "Fault", "Simulation"]

VERSION = "1.34.1-gke.3084001"
CALLS_A_MINUTE = 600
_BEFORE: dict[str, Refusal] = {
    "unavailable": Refusal(503, "The service is currently unavailable."),
    "denied": Refusal(403, "Permission denied: the caller lacks container.clusters.update."),
    "exhausted": Refusal(429, "Quota exceeded for quota metric 'requests' and limit 'per minute'."),
}


class Simulation:
    """`catalog` is the generated project's slices.py. Its servers end with its context."""

    def __init__(
        self, catalog: Any, project: str = "my-gcp-project", start: float = 1_800_000_000.0
    ) -> None:
        self.project, self.faults, self.jobs = project, Faults(), Jobs()
        self.calls: list[Call] = []
        self.calls_a_minute = CALLS_A_MINUTE
        self._ended = threading.Event()
        self._lock, self._tokens, self._minutes = threading.RLock(), 1, dict[int, int]()
        self.clock = Clock(start, lambda seconds: self.gke.tick(seconds), self._lock)
        self.gke = Gke(catalog, project, self.clock.now)
        self.capacity = self.gke.capacity
        self._google_api, self.services = GoogleApi(self.gke), Services()
        self._apis: dict[str, KubernetesApi] = {}
        self._google, self._kubernetes = Server(self._ask_google), Server(self._ask_kube, tls=True)
        self.url = f"http://127.0.0.1:{self._google.port}"

    def __enter__(self) -> Simulation:
        return self

    def run(self, rate: float) -> None:
        """From now on `rate` simulated seconds pass in each real one, for other processes."""

        def move() -> None:
            before = time.monotonic()
            while not self._ended.wait(0.05):
                now = time.monotonic()
                self.clock.sleep(rate * (now - before))
                before = now

        threading.Thread(target=move, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._google.close()
        self._kubernetes.close()

    @property
    def token(self) -> str:
        """The bearer token that is accepted just now."""
        return f"token-{self._tokens}"

    def expire_token(self) -> None:
        self._tokens += 1

    def add_cluster(
        self, name: str, location: str, version: str = VERSION, autopilot: bool = False
    ) -> Cluster:
        address = local(len(self._apis) + 1)
        record = types.Cluster(
            name=name,
            location=location,
            status=types.Cluster.Status.RUNNING,
            current_master_version=version,
            initial_cluster_version=version,
            current_node_version=version,
            endpoint=f"{address}:{self._kubernetes.port}",
            master_auth={"cluster_ca_certificate": base64.b64encode(authority()).decode()},
            autopilot={"enabled": autopilot},
            self_link=f"{self.url}/v1/projects/{self.project}/locations/{location}/clusters/{name}",
        )
        kubernetes = Kubernetes(self.jobs, autopilot, self.clock.now())
        self._apis[address] = KubernetesApi(kubernetes, self.clock.now)
        cluster = self.gke.clusters[location, name] = Cluster(record, kubernetes)
        return cluster

    def env(self) -> dict[str, str]:
        """Variables of gcloud, which `ops` honours too."""
        override = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
        return {
            f"{override}CONTAINER": f"{self.url}/",
            f"{override}COMPUTE": f"{self.url}/compute/v1/",
            f"{override}SERVICEUSAGE": f"{self.url}/",
            f"{override}IAM": f"{self.url}/",
            f"{override}ARTIFACTREGISTRY": f"{self.url}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_PROJECT": self.project,
        }

    def bill(self) -> dict[str, float]:
        """Chip-seconds by whose they were: the resource label run."""
        return dict(self.gke.bill)

    def burning(self) -> dict[str, int]:
        return self.gke.burning()

    def most_burning(self) -> int:
        """The most chips that one owner had at a time, so far."""
        return max(self.gke.most.values(), default=0)

    def ours(self) -> list[str]:
        """Everything that carries the template's label."""
        mine = "managed-by=ray-tpu-template"
        found = [f"policy {n}" for n, p in self.gke.policies.items() if mine in str(p["body"])]
        for (_, name), cluster in self.gke.clusters.items():
            for pool in cluster.pools.values():
                if pool.asked.config.resource_labels.get("managed-by") == "ray-tpu-template":
                    found.append(f"pool {name}/{pool.asked.name}")
            for plural in ("rayjobs", "rayclusters", "pods"):
                objects = selected(cluster.kubernetes.store.all(plural), mine)
                found += [f"{plural} {name}/{item['metadata']['name']}" for item in objects]
        return found

    def _ask_google(
        self, verb: str, _: str, path: str, token: str, query: dict[str, str], body: bytes
    ) -> Reply:
        if path == "/now":  # for processes of a test that live by this clock
            return Reply(200, {"now": self.clock.now()})
        if path == "/token":
            kind = "urn:ietf:params:oauth:token-type:access_token"
            given = {"access_token": self.token, "token_type": "Bearer", "expires_in": 3600}
            return Reply(200, {**given, "issued_token_type": kind})
        with self._lock:
            known = self.services.route(verb, path)
            method, handler = known or self._google_api.route(verb, path)
            return self._answer(method, path, token, query, body, handler, google_refusal)

    def _ask_kube(
        self, verb: str, address: str, path: str, token: str, query: dict[str, str], body: bytes
    ) -> Reply:
        with self._lock:
            method, handler = self._apis[address].route(verb, path)
            token = token or "nobody"
            return self._answer(method, path, token, query, body, handler, kubernetes_refusal)

    def _answer(
        self,
        method: str,
        path: str,
        token: str,
        query: dict[str, str],
        body: bytes,
        handler: Callable[[dict[str, str], bytes], Any],
        form: Callable[[Refusal], Any],
    ) -> Reply:
        call = Call(len(self.calls) + 1, method, path, self.clock.now())
        self.calls.append(call)
        fault = self.faults.strike(call)
        try:
            if fault == "timeout-before":
                return Reply(200, {}, fault)
            if fault == "unauthenticated":
                self.expire_token()
            self._check(token)
            if fault in _BEFORE:
                raise _BEFORE[fault]
            answer = handler(query, body)
            if fault == "empty":
                answer = {}
            if fault == "unavailable-after":
                raise _BEFORE["unavailable"]
            return Reply(201 if isinstance(answer, Made) else 200, answer, fault)
        except Refusal as refusal:
            return Reply(refusal.code, form(refusal), fault if fault == "timeout-after" else None)

    def _check(self, token: str) -> None:
        """gcloud without a login sends no token; a wrong one is refused."""
        if token and token != f"Bearer {self.token}":
            raise Refusal(401, "Request had invalid authentication credentials.")
        minute = int(self.clock.now() // 60)
        self._minutes[minute] = self._minutes.get(minute, 0) + 1
        if self._minutes[minute] > self.calls_a_minute:
            raise _BEFORE["exhausted"]
