"""The steps of `ops bootstrap`, each with the gcloud commands that show and make it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..config import Config
from .accounts import APIS, account, bucket, repository
from .bootstrap import Step
from .bootstrap_cluster import cluster, labels, pods_account
from .bootstrap_github import github
from .bootstrap_rights import accounts, build_rights, node_rights, role, train_rights

LIFECYCLE = Path(__file__).with_name("lifecycle.json")
CI = {"GitHub login": ".github/workflows", "nightly clean-up": "cloudbuild/cleanup.yaml"}
"""Steps for what a project has only where it has these files."""


def steps(
    config: Config,
    github_repository: str,
    trigger: str,
    shown: Callable[[], Any] | None = None,
    made: Callable[[], None] | None = None,
) -> list[Step]:
    """In the order in which they need each other. Raises InputError.

    `shown` and `made` look at and make the pods' Kubernetes service account in kubectl's place.
    """
    nodes, train, build = accounts(config)
    return [
        _apis(config),
        nodes,
        _registry(config),
        _bucket(config),
        *node_rights(config),
        cluster(config),
        train,
        *train_rights(config),
        pods_account(config, shown, made),
        build,
        role(config),
        *build_rights(config),
        *github(config, github_repository),
        _scheduler(config, trigger),
    ]


def wanted(steps: Iterable[Step], project: Path) -> list[Step]:
    """Without those that are skipped and mean nothing to the project in this folder."""
    return [
        step for step in steps if not step.skipped or (project / CI.get(step.name, ".")).exists()
    ]


def _apis(config: Config) -> Step:
    project = f"--project={config.cloud.project}"
    names = [f"{name}.googleapis.com" for name in APIS]
    return Step(
        "APIs",
        "a service that is not enabled refuses every call",
        ("gcloud", "services", "list", "--enabled", project),
        (("gcloud", "services", "enable", *names, project),),
        there=lambda found: set(names) <= {item["config"]["name"] for item in found or ()},
    )


def _registry(config: Config) -> Step:
    place = repository(config.cloud.registry)
    where = (place.name, f"--location={place.location}", f"--project={place.project}")
    create = ("--repository-format=docker", f"--labels={labels(config)}")
    return Step(
        "image repository",
        "the nodes pull the image from it",
        ("gcloud", "artifacts", "repositories", "describe", *where),
        (("gcloud", "artifacts", "repositories", "create", *where, *create),),
    )


def _bucket(config: Config) -> Step:
    name, project = bucket(config.run.storage), f"--project={config.cloud.project}"
    why = "checkpoints, reports and data lie in it, next to the slices"
    if not name:
        return Step("bucket", why, skipped=f"run.storage = {config.run.storage} is no bucket")
    create = (
        "--uniform-bucket-level-access",
        f"--location={config.cloud.region}",
        f"--lifecycle-file={LIFECYCLE}",
        # Checkpoints come and go by the hour: kept for a week after their end they would cost more
        # than those that count.
        "--soft-delete-duration=0",
    )
    # All in one command: a bucket that is there may be somebody else's, and stays as it is.
    return Step(
        "bucket",
        why,
        ("gcloud", "storage", "buckets", "describe", f"gs://{name}", project),
        (("gcloud", "storage", "buckets", "create", f"gs://{name}", *create, project),),
    )


def _scheduler(config: Config, trigger: str) -> Step:
    cloud = config.cloud
    why = "the clean-up comes every night, also where nobody pushes any more"
    if not trigger:
        skipped = "name the trigger of cloudbuild/cleanup.yaml: --cloudbuild-trigger NAME"
        return Step("nightly clean-up", why, skipped=skipped)
    place = f"projects/{cloud.project}/locations/{cloud.region}"
    uri = f"https://cloudbuild.googleapis.com/v1/{place}/triggers/{trigger}:run"
    job = ("gcloud", "scheduler", "jobs")
    where = (f"{cloud.cluster}-sweep", f"--location={cloud.region}", f"--project={cloud.project}")
    call = (
        *("--schedule=0 3 * * *", "--time-zone=Etc/UTC", f"--uri={uri}", "--http-method=POST"),
        *("--message-body={}", f"--oauth-service-account-email={account(cloud, 'build')}"),
    )
    kind = "Content-Type=application/json"
    return Step(
        "nightly clean-up",
        why,
        (*job, "describe", *where),
        ((*job, "create", "http", *where, *call, f"--headers={kind}"),),
        there=lambda found: bool(found and (found.get("httpTarget") or {}).get("uri") == uri),
        mend=((*job, "update", "http", *where, *call, f"--update-headers={kind}"),),
    )
