"""Names of the one-time parts: `bootstrap` makes what `doctor` looks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..config import Cloud
from ..errors import InputError

APIS = (
    "container",
    "compute",
    "tpu",
    "artifactregistry",
    "storage",
    "iamcredentials",
    "sts",
    "cloudbuild",
    "monitoring",
    "logging",
    "cloudscheduler",
)
IDENTITY = "iam.gke.io/gcp-service-account"
"""The annotation by which pods act as a Google service account (Workload Identity)."""
ROLES = ("nodes", "train", "build")
"""Who acts in the project: the nodes, the pods that train, and what builds and starts runs."""


def account_id(cluster: str, role: str) -> str:
    return f"{cluster}-{role}"


def account(cloud: Cloud, role: str) -> str:
    """The e-mail address of a service account."""
    return f"{account_id(cloud.cluster, role)}@{cloud.project}.iam.gserviceaccount.com"


@dataclass(frozen=True)
class Repository:
    """A Docker repository of Artifact Registry."""

    location: str
    project: str
    name: str

    @property
    def path(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.name}"


def repository(registry: str) -> Repository:
    """Of cloud.registry. Raises InputError."""
    match = re.fullmatch(r"([a-z0-9-]+)-docker\.pkg\.dev/([^/]+)/([^/]+)(/.*)?", registry)
    if match is None:
        raise InputError(
            f'"{registry}" is no repository of Artifact Registry',
            "cloud.registry",
            "write it like us-central1-docker.pkg.dev/PROJECT/REPOSITORY",
        )
    return Repository(match[1], match[2], match[3])


def bucket(storage: str) -> str:
    """The bucket's name; empty where run.storage is a local path."""
    return storage.removeprefix("gs://").partition("/")[0] if storage.startswith("gs://") else ""
