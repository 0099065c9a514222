"""Removing what is ours, and waiting until it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from google.cloud.container_v1 import types

from ..errors import Failure, LeftOver
from .clock import rounds
from .desk import Desk
from .gke import Place, Status, owner, place_of
from .owned import selector
from .remote import Busy, Exists, Missing
from .things import ORDER, Thing

POLL_SECONDS = 15
REMOVE_SECONDS = 2400
"""How long one kind may take: a pool goes only after what its cluster is working on."""

RAY = ("rayjobs", "rayclusters")
Key = tuple[Place, str]


@dataclass
class Removal:
    """What is gone, what stayed, and the faults on the way."""

    gone: list[Thing] = field(default_factory=list)
    stayed: list[Thing] = field(default_factory=list)
    faults: list[Failure] = field(default_factory=list)

    def check(self) -> None:
        """Raises LeftOver where something stayed, else the first fault."""
        if self.stayed:
            raise left_over(self.stayed, self.faults)
        if self.faults:
            raise self.faults[0]


def left_over(stayed: Iterable[Thing], faults: Iterable[Failure]) -> LeftOver:
    why = "".join(f"; {text}" for text in dict.fromkeys(fault.what for fault in faults))
    return LeftOver(
        f"still there: {', '.join(map(str, stayed))}{why}",
        "the Google Cloud project",
        "mend what is named and run `ops teardown` again; `ops sweep` takes what has expired",
    )


def remove(desk: Desk, things: Iterable[Thing]) -> Removal:
    """Removes them kind by kind, in every cluster at once; another caller may remove the same.

    Goes on after a fault: a pool costs money whatever became of the job above it.
    """
    removal, things = Removal(), list(things)
    for kind in ORDER:
        if group := [thing for thing in things if thing.kind == kind]:
            _Kind(desk, kind, removal).remove(group)
    return removal


class _Kind:
    """Things of one kind: asks for each until none is there any more."""

    def __init__(self, desk: Desk, kind: str, removal: Removal) -> None:
        self._desk, self._kind, self._removal = desk, kind, removal
        self._leaving: set[Key] = set()

    def remove(self, group: list[Thing]) -> None:
        # Others may have been at work since these things were listed.
        pending = self._look(sorted(group, key=lambda thing: str(thing.place)))
        for _ in rounds(self._desk.clock, POLL_SECONDS, REMOVE_SECONDS):
            if not pending:
                return
            for _, here in groupby(list(pending), key=lambda thing: thing.place):
                for thing in self._ask(list(here)):
                    pending.remove(thing)
            pending = self._look(pending)
            if pending:
                self._desk.say(f"waiting for {', '.join(map(str, pending[:3]))} to go")
        self._removal.stayed += pending

    def _ask(self, things: list[Thing]) -> list[Thing]:
        """Asks for what is not leaving yet; returns what cannot be removed."""
        if self._kind == "pool" and any(_key(thing) in self._leaving for thing in things):
            return []  # a cluster takes one operation at a time
        refused = []
        for thing in things:
            try:
                if _key(thing) not in self._leaving:
                    self._desk.say(f"removing {thing}")
                    self._delete(thing)
                    self._note([thing])
                    if self._kind == "pool":
                        break
            except (Missing, Exists):
                continue
            except Busy:
                break  # this cluster takes the next one later
            except Failure as failure:
                refused.append(self._failed(thing, failure))
        return refused

    def _delete(self, thing: Thing) -> None:
        if self._kind == "pool":
            self._desk.gke.delete_pool(thing.place, thing.name)
        elif self._kind == "policy":
            self._desk.policies.delete(self._desk.project, thing.body)
        else:
            self._desk.kube(thing.place).delete(self._kind, thing.body)

    def _look(self, pending: list[Thing]) -> list[Thing]:
        """Those that are still there, or cannot be seen. One that was made anew under the same name
        is another thing, and stays."""
        if not pending:
            return []
        try:
            there = self._there({thing.place for thing in pending})
        except Failure as failure:
            self._removal.stayed += pending
            self._removal.faults.append(failure)
            return []
        still = [thing for thing in pending if there.get(_key(thing)) == _identity(thing)]
        self._removal.gone += [thing for thing in pending if thing not in still]
        return still

    def _there(self, places: set[Place]) -> dict[Key, object]:
        """What has which name now."""
        if self._kind == "policy":
            found = self._desk.policies.all(self._desk.project)
            return {(Place(self._desk.project, p.region, ""), p.name): p.owner for p in found}
        if self._kind == "pool":
            return self._pools(places)
        mine = selector(project=self._desk.label)
        return {
            (place, found["metadata"]["uid"]): found["metadata"]["uid"]
            for place in places
            for found in self._desk.kube(place).objects(self._kind, mine)
        }

    def _pools(self, places: set[Place]) -> dict[Key, object]:
        """All clusters in one request, where there are several and none is silent."""
        there: dict[Key, object] = {}
        answer = self._desk.gke.clusters(self._desk.project) if len(places) > 1 else None
        if answer is None or answer.silent:
            for place in places:
                there |= self._noted(place, self._desk.gke.pools(place))
        else:
            for cluster in answer.clusters:
                there |= self._noted(place_of(self._desk.project, cluster), cluster.node_pools)
        return there

    def _noted(self, place: Place, pools: Iterable[types.NodePool]) -> dict[Key, object]:
        """A pool that is not STOPPING (any more) has to be asked for (again)."""
        pools = list(pools)
        stopping = {(place, p.name) for p in pools if p.status == Status.STOPPING}
        self._leaving = (self._leaving - {(place, p.name) for p in pools}) | stopping
        return {(place, pool.name): owner(pool) for pool in pools}

    def _note(self, things: Iterable[Thing]) -> None:
        self._leaving |= {_key(thing) for thing in things}

    def _failed(self, thing: Thing, failure: Failure) -> Thing:
        self._desk.say(failure.what)
        self._removal.faults.append(failure)
        self._removal.stayed.append(thing)
        return thing


def _identity(thing: Thing) -> object:
    """What tells this thing from a later one of the same name."""
    return thing.body["metadata"]["uid"] if thing.kind in RAY else thing.owner


def _key(thing: Thing) -> Key:
    return thing.place, thing.body["metadata"]["uid"] if thing.kind in RAY else thing.name
