"""From a pod's description of a container to what is really started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rehearsal.kubelet import environment
from rehearsal.kubelet.containers import Launch
from rehearsal.kubelet.desk import Desk
from rehearsal.kubelet.images import WORK, Image
from rehearsal.kubelet.network import HOST, Address

Object = dict[str, Any]
LONGEST_HOSTNAME = 63


def launch(
    desk: Desk, pod: Object, spec: Object, at: Address, folders: tuple[Path, Path], image: Image
) -> Launch:
    """Raises ConfigError."""
    environment.check(spec)
    chips, user = environment.chips(spec), environment.user(pod, spec, image.user)
    name = (pod["spec"].get("hostname") or pod["metadata"]["name"])[:LONGEST_HOSTNAME]
    first = {"HOME": "/home/ray" if user else "/root", "HOSTNAME": name, **image.environ()}
    # What the container says itself takes precedence over the device plugin.
    first |= desk.devices(pod) if chips else {}
    known = environment.variables(pod, spec, first, {"podIP": at.ip, "hostIP": HOST})
    hosts = (str(desk.names.of(pod["metadata"]["name"])), "/etc/hosts", "read")
    return Launch(
        command=environment.command(spec, known),
        environment=known,
        image=image,
        network=at.file,
        hostname=name,
        binds=[hosts, *environment.binds(pod, spec, *folders)],
        directory=spec.get("workingDir") or (WORK if image.project else "/"),
        user=user,
        chips=chips,
    )
