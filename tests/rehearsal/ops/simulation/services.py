"""The other services of Google that `ops doctor` asks: what is enabled, who exists, quota."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from rehearsal.ops.simulation.refusal import Refusal

Answer = dict[str, Any]


class Services:
    """Everything is there and enough of it, unless a test takes it away."""

    def __init__(self) -> None:
        self.disabled: set[str] = set()
        self.missing: set[str] = set()
        """Names of service accounts and repositories that do not exist."""
        self.quotas = {"TPU_LITE_PODSLICE_V5": 64.0, "PREEMPTIBLE_TPU_LITE_PODSLICE_V5": 64.0}
        self._routes: tuple[tuple[str, Callable[[str], Answer]], ...] = (
            (r"/v1/projects/[^/]+/services/([a-z]+)\.googleapis\.com", self._service),
            (r"/v1/projects/[^/]+/serviceAccounts/([^/]+)", self._account),
            (r"/v1/projects/[^/]+/locations/[^/]+/repositories/([^/]+)", self._repository),
            (r"/compute/v1/projects/[^/]+/regions/([^/]+)", self._region),
        )

    def route(self, verb: str, path: str) -> tuple[str, Callable[..., Answer]] | None:
        for pattern, handler in self._routes:
            if verb == "GET" and (match := re.fullmatch(pattern, path)):
                return handler.__name__.strip("_"), partial(_called, handler, match[1])
        return None

    def _service(self, name: str) -> Answer:
        return {"name": name, "state": "DISABLED" if name in self.disabled else "ENABLED"}

    def _account(self, email: str) -> Answer:
        return {"email": self._there(email)}

    def _repository(self, name: str) -> Answer:
        return {"name": self._there(name), "format": "DOCKER"}

    def _region(self, name: str) -> Answer:
        quotas = [{"metric": key, "limit": most, "usage": 0} for key, most in self.quotas.items()]
        return {"kind": "compute#region", "name": name, "quotas": quotas}

    def _there(self, name: str) -> str:
        if name in self.missing:
            raise Refusal(404, f"Unknown: {name}")
        return name


def _called(handler: Callable[[str], Answer], name: str, *_: Any) -> Answer:
    return handler(name)
