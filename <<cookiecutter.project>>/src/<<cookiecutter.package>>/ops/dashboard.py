"""Ray's dashboard of a run on this machine, through kubectl."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import NotFound
from .desk import Desk
from .job import job_of
from .owned import rayjob_name

AGAIN_SECONDS = 3
DASHBOARD_PORT = 8265


def forward(desk: Desk, port: int) -> None:
    """Forwards `port` until it is interrupted, and connects again when the connection is lost.

    Raises NotFound where a tool or the run's Ray cluster is missing, Failure.
    """
    for tool in ("kubectl", "gcloud", "gke-gcloud-auth-plugin"):
        if shutil.which(tool) is None:
            raise NotFound(
                f"{tool} is not on this machine", "PATH", "`ops doctor` says how to install it"
            )
    service = f"service/{_cluster(desk)}-head-svc"
    desk.say(f"http://127.0.0.1:{port} (Ctrl-C ends it)")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"KUBECONFIG": str(Path(folder) / "kubeconfig")}
        _get_credentials(desk, environment)
        words = ["kubectl", "port-forward", service, f"{port}:{DASHBOARD_PORT}"]
        while True:
            subprocess.run(words, env=environment, check=False)  # noqa: S603
            desk.say("the connection was lost; connecting again")
            desk.clock.sleep(AGAIN_SECONDS)
            service = f"service/{_cluster(desk)}-head-svc"


def _cluster(desk: Desk) -> str:
    """The run's Ray cluster as it is now: a job that is tried again gets a new one."""
    name = job_of(desk.kube(desk.place).get("rayjobs", rayjob_name(desk.run))).cluster
    if not name:
        raise NotFound(
            f"run {desk.run} has no Ray cluster yet", str(desk.place), "`ops watch` tells its state"
        )
    return name


def _get_credentials(desk: Desk, environment: dict[str, str]) -> None:
    place = desk.place
    words = ["gcloud", "container", "clusters", "get-credentials", place.name]
    options = ["--location", place.location, "--project", place.project]
    found = subprocess.run(  # noqa: S603
        [*words, *options], env=environment, check=False, capture_output=True, text=True
    )
    if found.returncode:
        raise NotFound(found.stderr.strip(), str(place), "log in with gcloud: `ops doctor`")
