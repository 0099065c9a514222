"""A container of a pod through all its runs: image, start, probes, restarts, end."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal.kubelet.api import stamp
from rehearsal.kubelet.containers import Container, Launch, StartError
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.ending import end
from rehearsal.kubelet.environment import ConfigError
from rehearsal.kubelet.images import Image
from rehearsal.kubelet.launching import launch
from rehearsal.kubelet.logs import Log
from rehearsal.kubelet.network import Address
from rehearsal.kubelet.probes import Probes
from rehearsal.kubelet.stopping import Stopping

Object = dict[str, Any]
DELAYS = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Before each restart; a kubelet's begin at ten seconds and end at five minutes."""
PULL_SECONDS, LOOK_SECONDS = 1.0, 0.1
CANNOT_START = 128


class Runner:
    """`changed` is called when `status` would say something new."""

    def __init__(
        self,
        desk: Desk,
        pod: Object,
        spec: Object,
        at: Address,
        folders: tuple[Path, Path],
        stopping: Stopping,
        changed: Callable[[], None],
        once: bool,
    ) -> None:
        self._desk, self._pod, self.spec, self._at = desk, pod, spec, at
        self._folders, self._stopping, self._changed = folders, stopping, changed
        policy = pod["spec"].get("restartPolicy", "Always")
        self._policy = "OnFailure" if once and policy == "Always" else policy
        self.state: Object = {"waiting": {"reason": "PodInitializing"}}
        self.last: Object = {}
        self.restarts, self.ready, self.started, self.over = 0, False, False, False
        self.code: int | None = None
        self.logs: list[Log] = []
        self._identity, self._sick = "", False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    def run(self) -> None:
        """Until it will not run again."""
        while not self._stopping.begun():
            self.code = self._once()
            if self._stopping.begun() or not self._again():
                break
            self._wait_for_turn()
        self.over, self.ready = True, False
        self._changed()

    def _once(self) -> int | None:
        image = self._pull()
        asked = self._launch(image) if image else None
        if asked is None:
            return None
        self.logs.append(log := Log(self._folder() / f"{self.restarts}.log"))
        self._identity = f"rehearsal://{uuid.uuid4().hex}"
        began = stamp()
        try:
            container = Container(asked, self._folder(), log)
        except StartError as error:
            self._say("Failed", f"Error: failed to start container: {error}")
            return self._ended(CANNOT_START, began, "StartError", str(error))
        self.state = {"running": {"startedAt": began}}
        self._say("Started", f"Started container {self.name}", "Normal")
        self._attend(container)
        code = container.wait()
        return self._ended(code, began, "Completed" if code == 0 else "Error")

    def _attend(self, container: Container) -> None:
        """Until the container has ended, by itself or because it has to."""
        self._sick = False
        probes = Probes(self.spec, container, self._at.ip, self._probed)
        self._changed()
        while not container.wait_for(LOOK_SECONDS):
            if self._stopping.begun() or self._sick:
                self._end(container)
        probes.end()

    def _end(self, container: Container) -> None:
        if self._stopping.begun():
            self._say("Killing", f"Stopping container {self.name}", "Normal")
            return end(container, self.spec, self._stopping, self._say)
        own = Stopping()
        own.begin(float(self._pod["spec"].get("terminationGracePeriodSeconds", 30)))
        return end(container, self.spec, own, self._say)

    def _ended(self, code: int, began: str, reason: str, message: str = "") -> int:
        told = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": stamp()}
        identity = {"containerID": self._identity}
        self.state = {"terminated": told | identity | ({"message": message} if message else {})}
        self.ready = self.started = False
        self._changed()
        return code

    def _again(self) -> bool:
        return self._policy == "Always" or (self._policy == "OnFailure" and self.code != 0)

    def _wait_for_turn(self) -> None:
        delay = DELAYS[min(self.restarts, len(DELAYS) - 1)]
        self.last = self.state
        if delay:
            name = f"{self.name} in pod {self._pod['metadata']['name']}"
            message = f"back-off {delay:.0f}s restarting failed container={name}"
            self._wait("CrashLoopBackOff", message)
            self._say("BackOff", f"Back-off restarting failed container {name}")
            self._stopping.wait(delay)
        self.restarts += 1

    def _pull(self) -> Image | None:
        """None where the pod has to end before there is such an image."""
        name = self.spec["image"]
        while name not in self._desk.images:
            missing = f'failed to pull and unpack image "{name}": {name}: not found'
            self._wait("ErrImagePull", f"rpc error: code = NotFound desc = {missing}")
            self._say("Failed", f'Failed to pull image "{name}": {missing}')
            self._say("Failed", "Error: ErrImagePull")
            if self._stopping.wait(PULL_SECONDS):
                return None
            self._wait("ImagePullBackOff", f'Back-off pulling image "{name}": {missing}')
            self._say("BackOff", f'Back-off pulling image "{name}"', "Normal")
            self._say("Failed", "Error: ImagePullBackOff")
            if self._stopping.wait(DELAYS[-1]):
                return None
        return self._desk.images[name]

    def _launch(self, image: Image) -> Launch | None:
        """None where the pod has to end while its settings cannot be met."""
        while True:
            try:
                return launch(self._desk, self._pod, self.spec, self._at, self._folders, image)
            except ConfigError as error:
                self._wait("CreateContainerConfigError", str(error))
                self._say("Failed", f"Error: {error}")
            if self._stopping.wait(DELAYS[-1]):
                return None

    def _probed(self, kind: str, ok: bool, seen: str) -> None:
        if kind.endswith("-seen"):
            title = kind.removesuffix("-seen").capitalize()
            self._say("Unhealthy", f"{title} probe failed: {seen}")
        elif kind == "readiness":
            self.ready = ok
        elif kind == "startup" and ok:
            self.started = True
        elif not ok:
            self._say("Killing", f"Container {self.name} failed {kind} probe", "Normal")
            self._sick = True
        self._changed()

    def _wait(self, reason: str, message: str) -> None:
        self.state = {"waiting": {"reason": reason, "message": message}}
        self._changed()

    def _say(self, reason: str, message: str, kind: str = "Warning") -> None:
        if not self._stopping.at_once:
            self._desk.events.say(self._pod, reason, message, kind)

    def _folder(self) -> Path:
        folder = self._folders[0] / self.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def status(self) -> Object:
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"] if self._identity else "",
            "containerID": self._identity,
            "state": self.state,
            "lastState": self.last,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        }
