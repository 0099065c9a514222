"""Workload policies of Compute Engine, which place the machines of a multi-host 7x slice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .faults import GarbledError
from .owned import Owner, owner_of_text
from .rest import Rest


@dataclass(frozen=True)
class Policy:
    """A workload policy of ours; its description says whose it is."""

    name: str
    region: str
    owner: Owner


class Policies:
    """One method, one request, except `all`, which asks once a page."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def create(self, project: str, region: str, name: str, topology: str, owner: Owner) -> None:
        """Raises Exists, Failure."""
        body = {
            "name": name,
            "description": owner.text(),
            "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": topology},
        }
        path = f"projects/{project}/regions/{region}/resourcePolicies"
        self._rest.ask(f"make workload policy {name}", "POST", "compute", path, _whole, json=body)

    def delete(self, project: str, policy: Policy) -> None:
        """Raises Missing, Failure; a policy that a pool still uses is refused."""
        path = f"projects/{project}/regions/{policy.region}/resourcePolicies/{policy.name}"
        self._rest.ask(f"remove workload policy {policy.name}", "DELETE", "compute", path, _whole)

    def all(self, project: str) -> list[Policy]:
        """Ours in every region."""
        path, found, token = f"projects/{project}/aggregated/resourcePolicies", [], ""
        while True:
            page = {"pageToken": token} if token else {}
            what = "list workload policies"
            answer = self._rest.ask(what, "GET", "compute", path, _whole_list, params=page)
            found += list(_ours(answer["items"]))
            token = answer.get("nextPageToken", "")
            if not token:
                return found


def _whole(answer: dict[str, Any]) -> None:
    if "kind" not in answer:
        raise GarbledError("the answer lacks its kind")


def _whole_list(answer: dict[str, Any]) -> None:
    if "items" not in answer:
        raise GarbledError("the answer lacks its items")


def _ours(items: dict[str, Any]) -> Iterator[Policy]:
    for place, group in items.items():
        for item in group.get("resourcePolicies", ()):
            if owner := owner_of_text(item.get("description", "")):
                yield Policy(item["name"], place.removeprefix("regions/"), owner)
