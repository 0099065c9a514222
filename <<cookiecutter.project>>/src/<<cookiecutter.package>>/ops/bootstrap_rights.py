"""Steps of `ops bootstrap` that say who may do what: as little as each needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..config import Config
from .accounts import ROLES, account, account_id, bucket, repository
from .bootstrap import NUMBER, Step
from .gcloud import Words
from .pods import SERVICE_ACCOUNT

WHY = {
    "nodes": "the nodes pull images and write logs and metrics as it",
    "train": "the training pods read data and write checkpoints as it",
    "build": "CI builds images, makes node pools and starts jobs as it",
}
NODE_ROLES = (
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/monitoring.viewer",
    "roles/stackdriver.resourceMetadata.writer",
    "roles/autoscaling.metricsWriter",
)
BUCKET_ROLES = ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
"""pyarrow asks for the bucket itself (storage.buckets.get) before it writes."""
OPS_ROLE = "rayTpuOps"
OPS_PERMISSIONS = (
    "compute.regions.get",
    "compute.resourcePolicies.create",
    "compute.resourcePolicies.delete",
    "compute.resourcePolicies.get",
    "compute.resourcePolicies.list",
    "compute.resourcePolicies.use",
    "container.clusters.get",
    "container.clusters.list",
    "container.clusters.update",
    "container.operations.get",
    "container.operations.list",
)
"""Google's smallest role that makes node pools may remove clusters too; this one may not."""


def accounts(config: Config) -> list[Step]:
    """The steps that make the accounts of ROLES, in that order."""
    project = f"--project={config.cloud.project}"
    command = ("gcloud", "iam", "service-accounts")
    return [
        Step(
            f"account {account_id(config.cloud.cluster, role)}",
            WHY[role],
            (*command, "describe", account(config.cloud, role), project),
            ((*command, "create", account_id(config.cloud.cluster, role), title, project),),
        )
        for role, title in ((role, f"--display-name={WHY[role][:100]}") for role in ROLES)
    ]


def role(config: Config) -> Step:
    project = f"--project={config.cloud.project}"
    permissions = f"--permissions={','.join(OPS_PERMISSIONS)}"
    command = ("gcloud", "iam", "roles")
    title = ("--title=TPU runs: node pools and their policies", "--stage=GA")
    return Step(
        f"role {OPS_ROLE}",
        "node pools are made and removed, clusters are not",
        (*command, "describe", OPS_ROLE, project),
        ((*command, "create", OPS_ROLE, project, permissions, *title),),
        there=lambda found: (
            set(OPS_PERMISSIONS) <= set((found or {}).get("includedPermissions", ()))
        ),
        mend=((*command, "update", OPS_ROLE, project, permissions),),
    )


def node_rights(config: Config) -> list[Step]:
    return [
        _on_project(config, "nodes", NODE_ROLES),
        _on_registry(config, "nodes", "roles/artifactregistry.reader"),
    ]


def train_rights(config: Config) -> list[Step]:
    pods = f"serviceAccount:{config.cloud.project}.svc.id.goog[default/{SERVICE_ACCOUNT}]"
    return [
        _on_bucket(config, "train"),
        on_account(config, "train", pods, "roles/iam.workloadIdentityUser", "the training pods"),
    ]


def build_rights(config: Config) -> list[Step]:
    own = f"projects/{config.cloud.project}/roles/{OPS_ROLE}"
    roles = (
        own,
        "roles/container.developer",
        "roles/cloudbuild.builds.editor",
        "roles/logging.logWriter",
        "roles/serviceusage.serviceUsageConsumer",
    )
    member, use = _member(config, "build"), "roles/iam.serviceAccountUser"
    return [
        _on_project(config, "build", roles),
        _on_registry(config, "build", "roles/artifactregistry.writer"),
        _on_bucket(config, "build"),
        on_account(config, "nodes", member, use, "build, to make nodes"),
        on_account(config, "build", member, use, "build, to start builds as itself"),
    ]


def _member(config: Config, role: str) -> str:
    return f"serviceAccount:{account(config.cloud, role)}"


def _on_project(config: Config, role: str, roles: Sequence[str]) -> Step:
    command, project = ("gcloud", "projects"), config.cloud.project
    member = _member(config, role)
    return _binding(f"{role}: rights in the project", command, (project,), member, roles)


def _on_registry(config: Config, role: str, right: str) -> Step:
    place = repository(config.cloud.registry)
    command = ("gcloud", "artifacts", "repositories")
    target = (place.name, f"--location={place.location}", f"--project={place.project}")
    member = _member(config, role)
    return _binding(f"{role}: rights on the images", command, target, member, [right], False)


def _on_bucket(config: Config, role: str) -> Step:
    name, title = bucket(config.run.storage), f"{role}: rights on the bucket"
    if not name:
        return Step(title, WHY[role], skipped=f"run.storage = {config.run.storage} is no bucket")
    command, target = ("gcloud", "storage", "buckets"), (f"gs://{name}",)
    return _binding(title, command, target, _member(config, role), BUCKET_ROLES, False)


def on_account(config: Config, role: str, member: str, right: str, whose: str) -> Step:
    command = ("gcloud", "iam", "service-accounts")
    target = (account(config.cloud, role), f"--project={config.cloud.project}")
    return _binding(f"{role}: used by {whose}", command, target, member, [right])


def _binding(
    title: str,
    command: Words,
    target: Words,
    member: str,
    roles: Sequence[str],
    conditions: bool = True,
) -> Step:
    """`conditions`: whether gcloud would ask for one, where the policy already has some."""
    words = (*command, "add-iam-policy-binding", *target, f"--member={member}")
    none = ("--condition=None",) if conditions else ()
    return Step(
        title,
        f"{', '.join(roles)}",
        (*command, "get-iam-policy", *target),
        tuple((*words, f"--role={role}", *none) for role in roles),
        there=lambda found: _bound(found, member, roles),
    )


def _bound(policy: Any, member: str, roles: Sequence[str]) -> bool:
    bindings = (policy or {}).get("bindings", ())
    held = {
        item.get("role")
        for item in bindings
        if not item.get("condition") and _holds(item.get("members", ()), member)
    }
    return set(roles) <= held


def _holds(members: Sequence[str], member: str) -> bool:
    """The project's number is unknown here: any stands for it."""
    pattern = re.escape(member).replace(re.escape(NUMBER), "[0-9]+")
    return any(re.fullmatch(pattern, one) for one in members)
