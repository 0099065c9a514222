"""The paths of a Kubernetes API server, onto a simulated cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rehearsal.ops.simulation.kubernetes import Kubernetes
from rehearsal.ops.simulation.refusal import Refusal
from rehearsal.ops.simulation.store import selected

Answer = dict[str, Any] | str
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/v1)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>log))?"
)
PAGE_ALWAYS = 500


class Made(dict[str, Any]):
    """An object that was not there before: the answer's status tells."""


class KubernetesApi:
    """`now` is the simulated time; one API for each cluster."""

    def __init__(self, kubernetes: Kubernetes, now: Callable[[], float]) -> None:
        self._kubernetes, self._now = kubernetes, now

    def route(self, verb: str, path: str) -> tuple[str, Callable[[dict[str, str], bytes], Answer]]:
        match = _PATH.fullmatch(path)
        if match is None:
            return f"{verb} {path}", _unknown(verb, path)
        plural, name, sub = match["plural"], match["name"], match["sub"]
        namespace = match["namespace"] or ""
        title = f"{verb} {plural}{'/log' if sub else ''}{'' if name else ' list'}"
        if sub:
            return title, lambda query, body: self._log(name, query)
        if verb == "GET" and not name:
            return title, lambda query, body: self._list(plural, query)
        if verb == "GET":
            return title, lambda query, body: self._kubernetes.store.get(plural, name)
        if verb == "POST" and not name:
            return f"POST {plural}", lambda query, body: self._create(plural, body)
        if verb == "PATCH":
            return title, lambda query, body: self._apply(plural, name, query, body)
        if verb == "DELETE" and name:
            return title, lambda query, body: self._delete(plural, name, namespace, body)
        return title, _unknown(verb, path)

    def _list(self, plural: str, query: dict[str, str]) -> Answer:
        found = selected(self._kubernetes.store.all(plural), query.get("labelSelector", ""))
        begin, limit = int(query.get("continue") or 0), int(query.get("limit") or PAGE_ALWAYS)
        more = {"continue": str(begin + limit)} if begin + limit < len(found) else {}
        return {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"resourceVersion": "1", **more},
            "items": found[begin : begin + limit],
        }

    def _create(self, plural: str, body: bytes) -> Answer:
        asked = json.loads(body)
        name = asked["metadata"]["name"]
        return Made(self._kubernetes.store.create(plural, name, asked, self._now()))

    def _apply(self, plural: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        if not query.get("fieldManager"):
            raise Refusal(400, "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value")
        asked = json.loads(body)
        if asked["metadata"].get("name") != name:
            raise Refusal(400, "the name of the object does not match the name on the URL")
        store = self._kubernetes.store
        form = Made if store.find(plural, name) is None else dict
        return form(store.apply(plural, name, asked, self._now(), query["fieldManager"]))

    def _delete(self, plural: str, name: str, namespace: str, body: bytes) -> Answer:
        only = (json.loads(body or b"{}").get("preconditions") or {}).get("uid", "")
        self._kubernetes.store.delete(plural, name, namespace, only)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _log(self, name: str, query: dict[str, str]) -> Answer:
        seconds = query.get("sinceSeconds")
        return self._kubernetes.log(name, int(seconds) if seconds else None)


def _unknown(verb: str, path: str) -> Callable[[dict[str, str], bytes], Answer]:
    def refuse(query: dict[str, str], body: bytes) -> Answer:
        raise Refusal(404, f"the server could not find the requested resource {verb} {path}")

    return refuse
