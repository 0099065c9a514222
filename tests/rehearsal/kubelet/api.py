"""The API server as a kubelet uses it: watches, statuses, events, and patience while it is away."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config, watch

Object = dict[str, Any]
Heard = Callable[[str, Object], None]
AGAIN_SECONDS, WATCH_SECONDS, TIMEOUT_SECONDS = 0.5, 60, 20
GONE, CONFLICT, UNPROCESSABLE = 404, 409, 422
WRONG = (400, 405, 415)
"""What no patience mends; a server that just starts may also say that something is forbidden."""
STRATEGIC = "application/strategic-merge-patch+json"
Away = (client.ApiException, urllib3.exceptions.HTTPError, OSError)
"""What a request fails with while the server is away, or does not want it."""


class Api:
    """Everything as plain objects. What must arrive is tried until `close`."""

    def __init__(self, kubeconfig: Path) -> None:
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        settings.retries = False
        self.client = client.ApiClient(settings)
        self.core = client.CoreV1Api(self.client)
        self.discovery = client.DiscoveryV1Api(self.client)
        self.coordination = client.CoordinationV1Api(self.client)
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def until(self, moment: float) -> bool:
        """Waits so long; True where all is over."""
        return self._closed.wait(moment)

    def plain(self, answer: Any) -> Any:
        return self.client.sanitize_for_serialization(answer)

    def insist(self, call: Callable[..., Any], *words: Any, **options: Any) -> Object | None:
        """The answer; None where the object is not there any more, or another of its name.

        Raises ApiException for a request that is wrong.
        """
        while not self._closed.is_set():
            try:
                answer = call(*words, _request_timeout=TIMEOUT_SECONDS, **options)
                found: Object = self.plain(answer)
                return found
            except client.ApiException as error:
                if error.status in (GONE, CONFLICT, UNPROCESSABLE):
                    return None
                if error.status in WRONG:
                    raise
                self._closed.wait(AGAIN_SECONDS)
            except Away:
                self._closed.wait(AGAIN_SECONDS)
        return None

    def follow(self, listing: Callable[..., Any], heard: Heard) -> threading.Thread:
        """Calls `heard` with ADDED, MODIFIED or DELETED, and the object, in a thread of its own."""
        thread = threading.Thread(target=self._follow, args=(listing, heard), daemon=True)
        thread.start()
        return thread

    def _follow(self, listing: Callable[..., Any], heard: Heard) -> None:
        known: dict[str, Object] = {}
        while not self._closed.is_set():
            with contextlib.suppress(*Away):
                for what, found in self._changes(listing, known):
                    uid = found["metadata"]["uid"]
                    if what == "DELETED":
                        known.pop(uid, None)
                    else:
                        known[uid] = found
                    heard(what, found)
            self._closed.wait(AGAIN_SECONDS)

    def _changes(
        self, listing: Callable[..., Any], known: dict[str, Object]
    ) -> Iterator[tuple[str, Object]]:
        """What there is now, what went unseen, and then what happens, for a minute."""
        answer = self.plain(listing(_request_timeout=TIMEOUT_SECONDS))
        there = {found["metadata"]["uid"]: found for found in answer["items"]}
        yield from [("DELETED", gone) for uid, gone in known.items() if uid not in there]
        for uid, found in there.items():
            if found != known.get(uid):
                yield ("MODIFIED" if uid in known else "ADDED"), found
        version = answer["metadata"]["resourceVersion"]
        options = {"resource_version": version, "timeout_seconds": WATCH_SECONDS}
        for event in watch.Watch().stream(listing, **options, _request_timeout=2 * WATCH_SECONDS):
            if self._closed.is_set():
                return
            yield event["type"], event["raw_object"]


class Events:
    """What a kubelet says about pods. The same again only counts up."""

    def __init__(self, api: Api) -> None:
        self._api, self._lock = api, threading.Lock()
        self._known: dict[tuple[str, str, str], Object] = {}

    def say(self, pod: Object, reason: str, message: str, kind: str = "Warning") -> None:
        about = pod["metadata"]
        key = (about["uid"], reason, message)
        with self._lock:
            known = self._known.get(key)
            count = known["count"] + 1 if known else 1
            body = self._body(pod, reason, message, kind, count, known)
            self._known[key] = body
        core, where = self._api.core, about["namespace"]
        if known:
            name = body["metadata"]["name"]
            self._api.insist(core.patch_namespaced_event, name, where, body)
        else:
            self._api.insist(core.create_namespaced_event, where, body)

    def _body(
        self, pod: Object, reason: str, message: str, kind: str, count: int, known: Object | None
    ) -> Object:
        about, now = pod["metadata"], stamp()
        kept = {"apiVersion": "v1", "kind": "Pod"}
        named = {key: about[key] for key in ("name", "namespace", "uid")}
        name = known["metadata"]["name"] if known else f"{about['name']}.{secrets.token_hex(8)}"
        return {
            "metadata": {"name": name, "namespace": about["namespace"]},
            "involvedObject": {**kept, **named},
            "reason": reason,
            "message": message,
            "type": kind,
            "count": count,
            "firstTimestamp": known["firstTimestamp"] if known else now,
            "lastTimestamp": now,
            "source": {"component": "kubelet", "host": pod["spec"].get("nodeName", "")},
            "reportingComponent": "kubelet",
            "reportingInstance": pod["spec"].get("nodeName", ""),
        }


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
