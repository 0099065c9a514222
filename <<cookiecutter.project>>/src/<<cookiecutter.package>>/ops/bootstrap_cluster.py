"""Steps of `ops bootstrap` that make the cluster, and the account of the pods in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..config import Config
from ..errors import Failure, InputError, NotFound
from .accounts import IDENTITY, account
from .bootstrap import Step
from .gcloud import Words
from .owned import MANAGED_BY
from .pods import SERVICE_ACCOUNT

HEAD_MACHINE = "e2-standard-4"
"""Room for a Ray head (2 CPUs, 8 GiB) beside the cluster's own pods."""
ALIVE = ("RUNNING", "RECONCILING")


def labels(config: Config) -> str:
    """No run and no expiry: the sweep leaves what is made once alone."""
    return f"managed-by={MANAGED_BY},project={config.run.project}"


def cluster(config: Config) -> Step:
    where = (
        config.cloud.cluster,
        f"--location={config.cloud.region}",
        f"--project={config.cloud.project}",
    )
    standard = config.cloud.cluster_mode == "standard"
    update = ("gcloud", "container", "clusters", "update", *where)
    addons = (*update, "--update-addons=RayOperator=ENABLED,GcsFuseCsiDriver=ENABLED")
    identity = (*update, f"--workload-pool={config.cloud.project}.svc.id.goog")
    return Step(
        "cluster",
        f"the jobs run in it ({config.cloud.cluster_mode})",
        ("gcloud", "container", "clusters", "describe", *where),
        (_standard(config, where) if standard else _autopilot(config, where),),
        there=lambda found: _complete(found, standard),
        mend=(addons, identity) if standard else (addons,),
        coming=lambda found: bool(found and found.get("status") in ("PROVISIONING", "STOPPING")),
        wrong=lambda found: _unfit(config, found),
    )


def _standard(config: Config, where: Words) -> Words:
    return (
        *("gcloud", "container", "clusters", "create", *where),
        f"--node-locations={config.cloud.zones[0]}",
        "--release-channel=regular",
        "--addons=RayOperator,GcsFuseCsiDriver,HorizontalPodAutoscaling,HttpLoadBalancing",
        "--enable-ray-cluster-logging",
        "--enable-ray-cluster-monitoring",
        f"--workload-pool={config.cloud.project}.svc.id.goog",
        f"--machine-type={HEAD_MACHINE}",
        *("--num-nodes=1", "--enable-autoscaling", "--min-nodes=1", "--max-nodes=4"),
        f"--service-account={account(config.cloud, 'nodes')}",
        "--scopes=cloud-platform",
        f"--labels={labels(config)}",
    )


def _autopilot(config: Config, where: Words) -> Words:
    return (
        *("gcloud", "container", "clusters", "create-auto", *where),
        "--release-channel=regular",
        "--enable-ray-operator",
        "--enable-ray-cluster-logging",
        "--enable-ray-cluster-monitoring",
        f"--service-account={account(config.cloud, 'nodes')}",
        f"--labels={labels(config)}",
    )


def _complete(found: Any, standard: bool) -> bool:
    if not found:
        return False
    addons = found.get("addonsConfig") or {}
    ray = (addons.get("rayOperatorConfig") or {}).get("enabled")
    fuse = (addons.get("gcsFuseCsiDriverConfig") or {}).get("enabled")
    identity = (found.get("workloadIdentityConfig") or {}).get("workloadPool")
    return bool(ray and (not standard or (fuse and identity)))


def _unfit(config: Config, found: Any) -> Failure | None:
    """A cluster that is there and that no command makes what run.toml asks for."""
    if not found:
        return None
    name, status = config.cloud.cluster, found.get("status", "unknown")
    if status not in ALIVE:
        remedy = "look at it in the console; remove it if it is broken, then bootstrap again"
        return NotFound(f"cluster {name} is in status {status}", config.cloud.region, remedy)
    mode = "autopilot" if (found.get("autopilot") or {}).get("enabled") else "standard"
    if mode != config.cloud.cluster_mode:
        remedy = "set cloud.cluster_mode to that, or choose another cloud.cluster"
        return InputError(f'cluster {name} is "{mode}"', "cloud.cluster_mode", remedy)
    return None


def pods_account(
    config: Config, shown: Callable[[], Any] | None, made: Callable[[], None] | None
) -> Step:
    cloud, name = config.cloud, SERVICE_ACCOUNT
    annotation = f"{IDENTITY}={account(cloud, 'train')}"
    where = (cloud.cluster, f"--location={cloud.region}", f"--project={cloud.project}")
    account_words = ("serviceaccount", name, "--namespace=default")
    return Step(
        "pods' service account",
        f"the pods name it ({name}) and act as the Google service account it points to",
        ("kubectl", "get", *account_words),
        (
            ("gcloud", "container", "clusters", "get-credentials", *where),
            ("kubectl", "create", *account_words),
            ("kubectl", "annotate", *account_words, annotation, "--overwrite"),
        ),
        shown=shown,
        made=made,
    )
