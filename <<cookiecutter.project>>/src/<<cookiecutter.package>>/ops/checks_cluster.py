"""Checks that ask the cluster: its mode, version and add-ons, and what is installed in it."""

from __future__ import annotations

import re
from typing import Any

from ..errors import InputError, NotFound, Refused
from ..slices import GENERATIONS
from .accounts import IDENTITY, account
from .checks_cloud import BOOTSTRAP
from .doctor import Doubt, Room, check
from .pods import SERVICE_ACCOUNT
from .rayjob import rayjob

RAY_ADDON_VERSION = "1.30.0-gke.1747000"
"""The oldest GKE with the Ray operator as an add-on."""
UPDATE = "gcloud container clusters update {cluster} --location={region} --project={project} "
UPGRADE = "gcloud container clusters upgrade {cluster} --location={region} --project={project} "


@check(BOOTSTRAP, "login")
def cluster(room: Room) -> str:
    """the job runs in it"""
    status = room.cluster.status.name
    if status not in ("RUNNING", "RECONCILING"):
        said = "; ".join(item.message for item in room.cluster.conditions if item.message)
        remedy = "wait until it is RUNNING, or remove it and run `ops bootstrap`"
        raise Refused(f"it is {status} {said}".rstrip(), str(room.desk.place), remedy)
    return f"{room.desk.place}, {status}"


@check("set cloud.cluster_mode in run.toml to what the cluster is", "cluster")
def mode(room: Room) -> str:
    """Autopilot refuses node pools, Standard makes no nodes for the job"""
    found = "autopilot" if room.cluster.autopilot.enabled else "standard"
    if found != room.config.cloud.cluster_mode:
        raise InputError(f'the cluster is "{found}"', "cloud.cluster_mode", "")
    return found


@check(UPGRADE + "--master", "cluster")
def version(room: Room) -> str:
    """each TPU generation came with a version of GKE"""
    found = room.cluster.current_master_version
    kind = GENERATIONS[room.config.hardware.generation]
    autopilot = room.config.cloud.cluster_mode == "autopilot"
    oldest = (kind.gke_autopilot if autopilot else kind.gke_standard) or RAY_ADDON_VERSION
    oldest = max(oldest, RAY_ADDON_VERSION, key=_order)
    if not found:
        raise Doubt("the cluster does not say its version")
    if _order(found) < _order(oldest):
        raise Refused(f"{found}; {kind.name} needs {oldest}", str(room.desk.place), "")
    return f"{found}, {kind.name} needs {oldest}"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


@check(UPDATE + "--update-addons=RayOperator=ENABLED", "cluster")
def ray_addon(room: Room) -> str:
    """it makes Ray clusters of the jobs, and numbers a slice's hosts"""
    if room.cluster.addons_config.ray_operator_config.enabled:
        return "enabled"
    raise Doubt("not enabled; good only where KubeRay and the TPU webhook were installed by hand")


@check(UPDATE + "--update-addons=RayOperator=ENABLED", "cluster")
def ray_job_type(room: Room) -> str:
    """an older KubeRay drops or refuses fields that end a job and give the chips back"""
    definition = room.kube.definition("rayjobs.ray.io")
    served = [item for item in definition["spec"]["versions"] if item.get("name") == "v1"]
    if not served:
        raise missing("RayJob has no version v1", "definition rayjobs.ray.io")
    schema = (served[0].get("schema") or {}).get("openAPIV3Schema") or {}
    if lacking := lacks(_sample(room), schema):
        remedy = "upgrade the cluster: its Ray operator comes with it"
        raise Refused(f"unknown fields: {', '.join(lacking)}", "definition rayjobs.ray.io", remedy)
    return "knows every field that is used"


def _sample(room: Room) -> dict[str, Any]:
    from .cost import Cost
    from .owned import Owner
    from .schedule import Schedule

    plan = Schedule(3600, "deadline", 0, Cost(0, None, exact=False))
    owner = Owner(room.config.run.project, room.config.run.name)
    return rayjob(room.config, "image", plan, owner)


def lacks(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """The keys of `value` that a schema does not have, like "spec.activeDeadlineSeconds"."""
    if isinstance(value, list):
        item = schema.get("items") or {}
        found = [name for part in value for name in lacks(part, item, f"{path}[]")]
        return list(dict.fromkeys(found))
    properties = schema.get("properties")
    if not (isinstance(value, dict) and properties):
        return []
    return [
        name
        for key, part in value.items()
        for name in _lacking(key, part, properties, f"{path}.{key}".lstrip("."))
    ]


def _lacking(key: str, part: Any, properties: dict[str, Any], path: str) -> list[str]:
    return lacks(part, properties[key], path) if key in properties else [path]


@check(UPDATE + "--update-addons=RayOperator=ENABLED", "cluster")
def tpu_webhook(room: Room) -> str:
    """it tells each host of a slice its number and its neighbours; without it they never meet"""
    found = [name for item in room.kube.webhooks() for name in _names(item) if "tpu" in name]
    if not found:
        raise missing("no webhook for TPUs", "mutating webhook configurations")
    return str(found[0])


def _names(configuration: dict[str, Any]) -> list[str]:
    """The add-on's own name for it is not known: any name in it may tell."""
    hooks = configuration.get("webhooks") or ()
    return [configuration["metadata"]["name"], *(str(hook.get("name")) for hook in hooks)]


@check("kubectl get deployments --all-namespaces", "cluster")
def operators(room: Room) -> str:
    """an operator that does not run leaves every job waiting"""
    known = [item for item in room.kube.deployments() if _is_ray(item["metadata"]["name"])]
    if late := [item["metadata"]["name"] for item in known if not _ready(item)]:
        raise Refused(f"not ready: {', '.join(late)}", "deployments", "")
    if not known:
        # The add-on runs where GKE runs the control plane.
        return "none to be seen: GKE runs them itself"
    return ", ".join(f"{item['metadata']['name']} is ready" for item in known)


def _is_ray(name: str) -> bool:
    return "kuberay" in name or "ray-operator" in name


def _ready(deployment: dict[str, Any]) -> bool:
    return bool((deployment.get("status") or {}).get("readyReplicas"))


@check(BOOTSTRAP, "cluster", "account names")
def pods_identity(room: Room) -> str:
    """the pods write checkpoints as the Google service account that it names"""
    found = room.kube.service_account(SERVICE_ACCOUNT)
    acts_as = (found["metadata"].get("annotations") or {}).get(IDENTITY)
    wanted = account(room.config.cloud, "train")
    if acts_as != wanted:
        said = f"acts as {acts_as}" if acts_as else f"lacks the annotation {IDENTITY}"
        raise missing(
            f"service account {SERVICE_ACCOUNT} {said}, not {wanted}", "namespace default"
        )
    return f"{SERVICE_ACCOUNT} acts as {acts_as}"


def missing(what: str, where: str) -> NotFound:
    """A part that `ops bootstrap` makes and that is not there, or not as it makes it."""
    return NotFound(what, where, BOOTSTRAP)


CLUSTER = (
    cluster,
    mode,
    version,
    ray_addon,
    ray_job_type,
    tpu_webhook,
    operators,
    pods_identity,
)
