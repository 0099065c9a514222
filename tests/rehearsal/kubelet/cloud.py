"""The simulated Google Cloud in real time, with a real Kubernetes behind its cluster."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from rehearsal.kubelet.joining import Joined
from rehearsal.kubelet.kubelet import Kubelet
from rehearsal.ops.simulation import VERSION, Simulation, gke
from rehearsal.ops.simulation.clock import Clock
from rehearsal.ops.simulation.gke import Cluster
from rehearsal.plane.reviewing import User

STEP_SECONDS = 1.0
OPS = ("ops", "system:masters")
QUICK: dict[str, Any] = {
    "CREATE_SECONDS": 4.0,
    "DELETE_SECONDS": 4.0,
    "CANCEL_SECONDS": 2.0,
    "START_SECONDS": 4.0,
}
"""GKE takes minutes for what nobody here learns anything from waiting for."""


class Cloud(Simulation):
    """One cluster: `url` and `authority` are its API server's; `tokens` are those that the API
    server knows. One expires for Google and for the cluster at once."""

    def __init__(
        self,
        catalog: Any,
        kubelet: Kubelet,
        url: str,
        authority: Path,
        tokens: MutableMapping[str, User],
    ) -> None:
        super().__init__(catalog)
        self.clock = WallClock(time.time(), self.gke.tick, self._lock)
        self.gke.now = self.clock.now
        self._catalog, self._kubelet = catalog, kubelet
        self._endpoint = urlsplit(url).netloc
        self._authority, self._known = authority, tokens
        tokens[self.token] = OPS
        self._quick = patch.multiple(gke, **QUICK)

    def __enter__(self) -> Cloud:
        self._quick.start()
        threading.Thread(target=self._keep_time, daemon=True).start()
        return self

    def __exit__(self, *words: object) -> None:
        super().__exit__(*words)
        self._quick.stop()

    def expire_token(self) -> None:
        del self._known[self.token]
        super().expire_token()
        self._known[self.token] = OPS

    def add_cluster(
        self, name: str, location: str, version: str = VERSION, autopilot: bool = False
    ) -> Cluster:
        cluster = super().add_cluster(name, location, version, autopilot)
        cluster.record.endpoint = self._endpoint
        certificate = base64.b64encode(self._authority.read_bytes()).decode()
        cluster.record.master_auth.cluster_ca_certificate = certificate
        joined: Any = Joined(self._kubelet, self._catalog, lambda: cluster.pools)
        cluster.kubernetes = joined
        return cluster

    def take(self, cluster: Cluster, pool: str, notice: float = 0.0) -> None:
        """Preempts all machines of a pool, after a notice of so many seconds or at once."""
        joined: Any = cluster.kubernetes
        nodes = joined.nodes(pool)
        with ThreadPoolExecutor(len(nodes)) as all_at_once:
            list(all_at_once.map(lambda name: self._kubelet.preempt(name, notice), nodes))
        with self._lock:
            self.gke.preempt(cluster, pool)

    def _keep_time(self) -> None:
        before = self.clock.now()
        while not self._ended.wait(STEP_SECONDS):
            now = self.clock.now()
            with self._lock:
                self.gke.tick(now - before)
            before = now


class WallClock(Clock):
    """It passes by itself."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
