"""A pod that is bound to a node of ours, from its network to its last status."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

from rehearsal.kubelet import machine
from rehearsal.kubelet.api import STRATEGIC, stamp
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.network import Address
from rehearsal.kubelet.runner import Runner
from rehearsal.kubelet.status import status
from rehearsal.kubelet.stopping import Stopping

Object = dict[str, Any]
GRACE_SECONDS = 30


class Pod:
    """Runs in its own threads from `start` on; `over` is set when nothing of it runs any more,
    `told` when the API server knows all of it."""

    def __init__(self, desk: Desk, body: Object) -> None:
        self.body, self.over, self.told = body, threading.Event(), threading.Event()
        self._desk, self._stopping = desk, Stopping()
        self._dirty = threading.Event()
        self._began = stamp()
        self._main: list[Runner] = []
        self._first: list[Runner] = []
        self._at: Address | None = None
        self._deleting = False
        self._lock = threading.Lock()

    @property
    def key(self) -> tuple[str, str]:
        return self.body["metadata"]["namespace"], self.body["metadata"]["name"]

    @property
    def node(self) -> str:
        return str(self.body["spec"]["nodeName"])

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def delete(self, seconds: float) -> None:
        """Ends it within this time, and takes the object away."""
        with self._lock:
            self._deleting = True
            ended = self.over.is_set()
        self._stopping.begin(seconds)
        if ended:
            self._remove()

    def shut_down(self, seconds: float) -> None:
        """Its node is about to go; the object stays, failed."""
        own = float(self.body["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS))
        text = "Pod was terminated in response to imminent node shutdown."
        reason = {"reason": "TerminationByKubelet", "message": text}
        disrupted = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": stamp()}
        told = {"phase": "Failed", "reason": "Terminated", "message": text}
        self._stopping.begin(min(own, seconds), {**told, "conditions": [disrupted | reason]})

    def crash(self) -> None:
        """All is gone at once, and nobody can tell."""
        self._stopping.crash()
        if self._at:
            machine.end(self._at.namespace)

    def runner(self, container: str) -> Runner | None:
        """The only one where no name is given."""
        known = [*self._main, *self._first]
        named = [one for one in known if one.name == container]
        return next(iter(named or ([] if container else self._main[:1])), None)

    def _run(self) -> None:
        at = self._at = self._desk.network.attach()
        name, folders = self.key[1], self._folders(at)
        self._desk.names.add(name, at.ip, self.body["spec"].get("hostname", ""))
        self._main, self._first = (
            [self._runner(spec, at, folders, once) for spec in self.body["spec"].get(kind) or ()]
            for kind, once in (("containers", False), ("initContainers", True))
        )
        telling = threading.Thread(target=self._tell, args=(at,), daemon=True)
        telling.start()
        if self._begin():
            self._go_on(at)
        self._desk.names.remove(name)
        self._desk.network.detach(at)
        shutil.rmtree(folders[1])
        with self._lock:
            self.over.set()
            deleting = self._deleting
        self._dirty.set()
        telling.join()
        self.told.set()
        if deleting:
            self._remove()

    def _begin(self) -> bool:
        """The init containers, one after another; False where one of them failed."""
        for one in self._first:
            one.run()
            if one.code != 0:
                for other in self._main:
                    other.over = True
                return False
        return True

    def _go_on(self, at: Address) -> None:
        threads = [threading.Thread(target=one.run, daemon=True) for one in self._main]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _tell(self, at: Address) -> None:
        """Sends the status when it has changed, and a last time in the end."""
        last: Object = {}
        while True:
            self._dirty.wait()
            self._dirty.clear()
            done = self.over.is_set()
            if self._stopping.at_once:
                if done:
                    return
                continue
            now = self._status(at)
            if now != last and self._send(now):
                last = now
            if done:
                return

    def _status(self, at: Address) -> Object:
        found = {"startTime": self._began, **status(self.body, at, self._first, self._main)}
        wish = self._stopping.status if self.over.is_set() else {}
        conditions = [*found["conditions"], *wish.get("conditions", ())]
        return {**found, **wish, "conditions": conditions}

    def _send(self, now: Object) -> bool:
        namespace, name = self.key
        # Of this very pod: another one may have its name by now.
        body = {"metadata": {"uid": self.body["metadata"]["uid"]}, "status": now}
        patch = self._desk.api.core.patch_namespaced_pod_status
        options = {"_content_type": STRATEGIC}
        answer = self._desk.api.insist(patch, name, namespace, body, **options)
        if answer:
            self.body = {**self.body, "status": answer["status"]}
        return answer is not None

    def _remove(self) -> None:
        if self._stopping.at_once:
            return
        namespace, name = self.key
        only = {"uid": self.body["metadata"]["uid"]}
        body = {"gracePeriodSeconds": 0, "preconditions": only}
        self._desk.api.insist(self._desk.api.core.delete_namespaced_pod, name, namespace, body=body)

    def _runner(self, spec: Object, at: Address, folders: tuple[Path, Path], once: bool) -> Runner:
        words = (self._desk, self.body, spec, at, folders, self._stopping, self._dirty.set)
        return Runner(*words, once=once)

    def _folders(self, at: Address) -> tuple[Path, Path]:
        """On the disk, and in memory."""
        found = (self._desk.network.folder / at.namespace, self._desk.network.memory / at.namespace)
        for folder in found:
            folder.mkdir()
        return found
