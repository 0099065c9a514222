"""Checks that ask Google Cloud: login, APIs, accounts, bucket, registry and quota."""

from __future__ import annotations

import secrets
from typing import Any

import fsspec
from google.auth.transport.requests import Request

from ..errors import InputError, Refused
from ..slices import GENERATIONS
from .accounts import APIS, account, bucket, repository
from .capacity import attempts
from .doctor import Doubt, Room, check
from .remote import QuotaExceeded

BOOTSTRAP = "ops bootstrap"
CONSOLE = "look in the console: IAM & Admin, Quotas, service Compute Engine, filter TPU"
PAID_FROM = {"on-demand": "", "spot": "PREEMPTIBLE_"}
"""What stands before a quota's name for a kind; a reservation carries its own chips, and which
quota flex-start takes from Compute Engine does not say."""


@check("gcloud auth application-default login", "settings")
def login(room: Room) -> str:
    """everything below is asked with it"""
    credentials = room.credentials
    if not credentials.valid:
        room.desk.remote("log in", "Google Cloud", lambda: credentials.refresh(Request()))
    return str(getattr(credentials, "service_account_email", "") or "a login is there")


@check(BOOTSTRAP, "login")
def apis(room: Room) -> str:
    """a service that is not enabled refuses every call"""
    project = room.config.cloud.project
    missing = [name for name in APIS if not _enabled(room, name)]
    if missing:
        names = " ".join(f"{name}.googleapis.com" for name in missing)
        raise Refused(
            f"not enabled: {', '.join(missing)}",
            f"project {project}",
            f"gcloud services enable {names} --project={project}",
        )
    return f"{len(APIS)} are enabled"


def _enabled(room: Room, name: str) -> bool:
    path = f"v1/projects/{room.config.cloud.project}/services/{name}.googleapis.com"
    return room.rest.get(f"look at API {name}", "serviceusage", path).get("state") == "ENABLED"


@check(BOOTSTRAP, "login", "account names")
def node_account(room: Room) -> str:
    """every TPU pool names it: without it a pool ends in ERROR"""
    email = account(room.config.cloud, "nodes")
    path = f"v1/projects/{room.config.cloud.project}/serviceAccounts/{email}"
    found = room.rest.get("look at the nodes' service account", "iam", path)
    if found.get("disabled"):
        command = f"gcloud iam service-accounts enable {email}"
        raise Refused(f"{email} is disabled", "service accounts", command)
    return email


@check(BOOTSTRAP, "login")
def registry(room: Room) -> str:
    """the nodes pull the image from it"""
    place = repository(room.config.cloud.registry)
    path = f"v1/{place.path}"
    found = room.rest.get("look at the image repository", "artifactregistry", path)
    if (kind := found.get("format", "DOCKER")) != "DOCKER":
        remedy = "name a Docker repository in cloud.registry"
        raise InputError(f"{place.name} is a repository of {kind}", place.path, remedy)
    return place.path


@check(BOOTSTRAP, "login")
def storage(room: Room) -> str:
    """pyarrow and Ray look at the bucket itself (storage.buckets.get) before they use it"""
    name = bucket(room.config.run.storage)
    if not name:
        raise Doubt(f"run.storage = {room.config.run.storage} is no bucket")
    found = room.rest.get(f"look at bucket {name}", "storage", f"b/{name}")
    location = str(found.get("location", "?")).lower()
    if location not in (room.config.cloud.region, "us", "eu", "asia"):
        raise Doubt(f"gs://{name} lies in {location}, the slices in {room.config.cloud.region}")
    return f"gs://{name} in {location}"


@check(
    "gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=user:YOU "
    "--role=roles/storage.objectAdmin",
    "settings",
    "storage",
)
def writing(room: Room) -> str:
    """a missing right would show at the first checkpoint only"""
    url = f"{room.config.run.storage.rstrip('/')}/doctor-{secrets.token_hex(4)}"
    try:
        files, path = fsspec.core.url_to_fs(url)
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        files.pipe_file(path, b"probe")
        same = files.cat_file(path) == b"probe"
        files.rm_file(path)
    except Exception as error:  # each storage raises errors of its own
        raise Refused(f"no object could be written and removed: {error}", url, "") from None
    if not same:
        raise Refused("an object came back with other bytes", url, "look at the storage")
    return "an object was written, read and removed"


@check(CONSOLE, "login")
def quota(room: Room) -> str:
    """a pool beyond the quota is refused; a new project often has none for TPUs"""
    hardware, region = room.config.hardware, room.config.cloud.region
    chips = hardware.slice.chips * hardware.slices
    path = f"projects/{room.config.cloud.project}/regions/{region}"
    limits = _limits(room.rest.get("look at the quota", "compute", path))
    kinds = dict.fromkeys(attempt.kind for attempt in attempts(room.config.cloud))
    free = {kind: _free(limits, hardware.generation, kind) for kind in kinds}
    told = "; ".join(f"{kind}: {_told(kind, number)}" for kind, number in free.items())
    small = [kind for kind, number in free.items() if number is not None and number < chips]
    if len(small) == len(kinds):
        where = f"{hardware.generation} in {region}"
        raise QuotaExceeded(f"{chips} chips are needed; {told}", where, f"ask for more: {CONSOLE}")
    if small or any(kind != "reservation" and free[kind] is None for kind in kinds):
        raise Doubt(f"{chips} chips are needed; {told}")
    return told


def _limits(region: dict[str, Any]) -> dict[str, float]:
    """What is left of each quota."""
    quotas = [item for item in region.get("quotas", ()) if "metric" in item]
    return {item["metric"]: item.get("limit", 0) - item.get("usage", 0) for item in quotas}


def _free(limits: dict[str, float], generation: str, kind: str) -> float | None:
    """None where Compute Engine does not show it; 0 is never guessed from that."""
    name = GENERATIONS[generation].quota
    return limits.get(PAID_FROM[kind] + name) if name and kind in PAID_FROM else None


def _told(kind: str, number: float | None) -> str:
    if kind == "reservation":
        return "needs none"
    return "not visible here: look in the console" if number is None else f"{number:g} chips free"


CLOUD = (login, apis, node_account, registry, storage, writing, quota)
