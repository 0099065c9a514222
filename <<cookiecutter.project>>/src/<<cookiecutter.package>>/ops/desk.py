"""What every verb needs: the settings, a clock, somewhere to say things, and the clients."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import google.auth
from google.auth.credentials import Credentials
from google.auth.transport.requests import Request
from google.cloud.container_v1 import types

from ..config import Config
from ..errors import Refused
from .clock import Clock, WallClock
from .faults import text_of
from .gke import Gke, Place
from .kube import Kube
from .policies import Policies
from .remote import Remote
from .rest import Rest, override

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


@dataclass
class Desk:
    """Clients are made when first asked for: some verbs need none."""

    config: Config
    say: Callable[[str], None]
    clock: Clock = field(default_factory=WallClock)
    login: Credentials | None = None

    def __post_init__(self) -> None:
        self.remote = Remote(self.clock, self.say, self._renew)
        self._kube: dict[Place, Kube] = {}

    @property
    def project(self) -> str:
        """The Google Cloud project that pays."""
        return self.config.cloud.project

    @property
    def label(self) -> str:
        """The value of the label "project" on all that this project rents."""
        return self.config.run.project

    @property
    def run(self) -> str:
        return self.config.run.name

    @property
    def place(self) -> Place:
        cloud = self.config.cloud
        return Place(cloud.project, cloud.region, cloud.cluster)

    @cached_property
    def credentials(self) -> Credentials:
        """Raises Refused where nobody is logged in."""
        if self.login is not None:
            return self.login
        # Else the library asks Google which project is meant, with a request of its own.
        os.environ.setdefault("GOOGLE_CLOUD_PROJECT", self.project)
        try:
            return google.auth.default(scopes=SCOPES)[0]
        except Exception as error:  # each kind of broken file fails in a way of its own
            file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
            raise Refused(
                f"there is no login for Google Cloud on this machine: {text_of(error)}",
                f"GOOGLE_APPLICATION_CREDENTIALS = {file}" if file else "default credentials",
                "let the variable name a right file, or unset it"
                if file
                else "log in: gcloud auth application-default login",
            ) from None

    @cached_property
    def gke(self) -> Gke:
        return Gke(self.remote, self.credentials, override("CONTAINER"))

    @cached_property
    def rest(self) -> Rest:
        return Rest(self.remote, self.credentials)

    @cached_property
    def policies(self) -> Policies:
        return Policies(self.rest)

    def kube(self, place: Place, cluster: types.Cluster | None = None) -> Kube:
        """The Kubernetes API of a cluster; `cluster` where the caller has it already."""
        if place not in self._kube:
            found = cluster or self.gke.cluster(place)
            self._kube[place] = Kube(self.remote, self.credentials, found)
        return self._kube[place]

    def _renew(self) -> None:
        self.credentials.refresh(Request())
