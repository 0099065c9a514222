"""Checks that ask no network: settings, tools and prices."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime

from ..errors import InputError, NotFound
from .accounts import ROLES, account_id
from .capacity import attempts
from .cost import FILE, read_prices
from .doctor import Doubt, Room, check
from .schedule import HOUR, schedule

TOOLS = {
    "gcloud": "https://cloud.google.com/sdk/docs/install",
    "kubectl": "gcloud components install kubectl",
    "gke-gcloud-auth-plugin": "gcloud components install gke-gcloud-auth-plugin",
    "git": "https://git-scm.com/downloads",
}
STALE_DAYS = 180
SECONDS_A_DAY = 86400


@check("correct the keys that are named in run.toml")
def settings(room: Room) -> str:
    """every command reads run.toml"""
    config = room.config
    one = config.hardware.slice
    return f"{room.file}: run {config.run.name} on {one.generation} {one.topology}"


@check("raise cloud.budget_usd or cloud.deadline_hours in run.toml", "settings", "price list")
def budget(room: Room) -> str:
    """a run that may not last is paid for and lost"""
    plan = schedule(room.config, read_prices())
    return f"a job ends after {plan.run_seconds / HOUR:.1f} h, by {plan.by}; {plan.most}"


@check("install: " + "; ".join(f"{tool}: {how}" for tool, how in TOOLS.items()))
def tools(room: Room) -> str:
    """gcloud sets the project up, kubectl with its login plug-in shows a run, git names its code"""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        how = "; ".join(f"{tool}: {TOOLS[tool]}" for tool in missing)
        raise NotFound(f"{', '.join(missing)} not found", "PATH", f"install: {how}")
    return f"{', '.join(TOOLS)} are there"


@check("name the image as the build prints it: REGISTRY/NAME@sha256:...")
def image(room: Room) -> str:
    """a tag can name other bytes on another host of the slice"""
    from .submit import check_image

    if not room.image:
        return "none was given to look at (--image)"
    check_image(room.image)
    return f"named by digest: {room.image}"


@check(f"correct ops/{FILE.name} from https://cloud.google.com/tpu/pricing, and set its date")
def price_list(room: Room) -> str:
    """the budget sets the deadline by these prices"""
    prices = read_prices()
    today = datetime.fromtimestamp(room.now(), UTC).date()
    days = (today - prices.checked).days
    if days > STALE_DAYS:
        raise Doubt(f"as of {prices.checked}, {days} days old")
    return f"as of {prices.checked}"


@check(
    f"add the price to ops/{FILE.name}; until then only cloud.deadline_hours ends a run",
    "settings",
    "price list",
)
def prices(room: Room) -> str:
    """without a price the budget cannot end a run"""
    config, table = room.config, read_prices()
    generation, region = config.hardware.generation, config.cloud.region
    kinds = dict.fromkeys(attempt.kind for attempt in attempts(config.cloud))
    found = {kind: table.find(generation, region, kind) for kind in kinds}
    if unknown := [kind for kind, price in found.items() if price is None]:
        raise Doubt(f"no price of {generation} in {region} for {', '.join(unknown)}")
    known = [
        f"{kind} {'' if price.exact else 'at most '}${price.usd:.2f}"
        for kind, price in found.items()
        if price
    ]
    return f"a chip and hour of {generation} in {region}: {', '.join(known)}"


@check("set run.storage and data.shards in run.toml to gs:// addresses", "settings")
def places(room: Room) -> str:
    """a slice's hosts share no disk: what one writes, the others find in a bucket only"""
    config = room.config
    named = {"run.storage": config.run.storage, "data.shards": config.data.shards}
    if local := [f"{key} = {url}" for key, url in named.items() if not url.startswith("gs://")]:
        raise Doubt(f"good on this machine only: {'; '.join(local)}")
    return ", ".join(named.values())


@check("shorten cloud.cluster in run.toml", "settings")
def account_names(room: Room) -> str:
    """service accounts are named after the cluster, and Google allows 6 to 30 characters"""
    cluster = room.config.cloud.cluster
    ids = [account_id(cluster, role) for role in ROLES]
    if wrong := [name for name in ids if not re.fullmatch(r"[a-z][-a-z0-9]{4,28}[a-z0-9]", name)]:
        raise InputError(f"{wrong[0]} has {len(wrong[0])} characters", "cloud.cluster", "")
    return ", ".join(ids)


LOCAL = (settings, price_list, budget, prices, tools, image, places, account_names)
