"""One attempt: the node pools of a run's slices, from one kind of capacity in one zone."""

from __future__ import annotations

from google.cloud.container_v1 import types

from ..errors import InputError, NotFound
from .capacity import Attempt
from .clock import rounds
from .desk import Desk
from .faults import Kind, kind_of_text
from .gke import Status, owner, said
from .owned import LONGEST_POLICY, Owner, fitted, pool_name
from .pools import needs_policy, pool_request
from .remote import Exists, QuotaExceeded, Stockout
from .removal import remove
from .things import policies_of_run, pools_of_run

POLL_SECONDS = 15
_RENAME = "choose another run.name, or remove what has the name"
FAILED = (Status.ERROR, Status.RUNNING_WITH_ERROR)
_IN_WORDS = {
    Kind.STOCKOUT: "Google has none left there just now",
    Kind.QUOTA: "your project's quota there is too small",
    None: "Google could not make it",
}


class Making:
    """`owner` goes on what is made; `seconds` is the longest that a flex-start node may live."""

    def __init__(self, desk: Desk, owner: Owner, attempt: Attempt, seconds: int) -> None:
        self._desk, self._owner, self._attempt, self._seconds = desk, owner, attempt, seconds
        slices = range(desk.config.hardware.slices)
        self.pools = tuple(pool_name(owner.run, attempt.number, index) for index in slices)

    def make(self) -> str:
        """Why this gave nothing; empty when all slices are there. Raises Failure."""
        for index, name in enumerate(self.pools):
            try:
                reason = self._make(index, name)
            except (QuotaExceeded, Stockout) as refusal:
                reason = refusal.what
            if reason:
                return reason
        return ""

    def clear(self) -> None:
        """Removes what the attempt left. Raises LeftOver, Failure."""
        mine = [pool for pool in pools_of_run(self._desk) if pool.name in self.pools]
        remove(self._desk, mine).check()

    def _make(self, index: int, name: str) -> str:
        pool = self._find(name)
        if pool is not None and pool.status == Status.STOPPING:
            self.clear()  # an earlier try's, on its way out
            pool = None
        request = self._request(index)
        if pool is None:
            self._create(request)
        return self._wait(request)

    def _find(self, name: str) -> types.NodePool | None:
        pools = self._desk.gke.pools(self._desk.place)
        return next((pool for pool in pools if pool.name == name), None)

    def _create(self, request: types.NodePool) -> None:
        try:
            self._desk.gke.create_pool(self._desk.place, request)
        except Exists:
            # Made by a request whose answer was lost, or by someone else: `_wait` tells.
            self._desk.say(f"node pool {request.name} is there already")

    def _wait(self, request: types.NodePool) -> str:
        minutes = self._desk.config.cloud.attempt_minutes
        for waited in rounds(self._desk.clock, POLL_SECONDS, minutes * 60):
            pool = self._find(request.name)
            if pool is None:
                raise NotFound(
                    f"node pool {request.name} went away while it was made",
                    str(self._desk.place),
                    "somebody removed it (`ops teardown`, `ops sweep`); run this again if the run "
                    "is still wanted",
                )
            _check_same(pool, request)
            if pool.status == Status.RUNNING:
                return ""
            if pool.status in FAILED:
                return f"{_IN_WORDS[kind_of_text(said(pool))]} ({said(pool)})"
            self._desk.say(f"waiting for {request.name}, {self._attempt}: {waited:.0f} s")
        self._cancel(request.name)
        return f"nothing came within {minutes:g} minutes"

    def _cancel(self, name: str) -> None:
        """Ends the operation that would keep the pool, and with it the whole cluster, busy."""
        target = f"/clusters/{self._desk.place.name}/nodePools/{name}"
        for operation in self._desk.gke.operations(self._desk.place):
            making = operation.operation_type == types.Operation.Type.CREATE_NODE_POOL
            running = operation.status != types.Operation.Status.DONE
            if making and running and operation.target_link.endswith(target):
                self._desk.gke.cancel(self._desk.place, operation.name)

    def _request(self, index: int) -> types.NodePool:
        config = self._desk.config
        policy = self._policy() if needs_policy(config.hardware.slice) else ""
        return pool_request(config, self._attempt, index, self._owner, self._seconds, policy)

    def _policy(self) -> str:
        desk, topology = self._desk, self._desk.config.hardware.topology
        name = fitted(self._owner.run, f"-{topology}", LONGEST_POLICY)
        try:
            region = desk.config.cloud.region
            desk.policies.create(desk.project, region, name, topology, self._owner)
        except Exists:
            if name not in [policy.name for policy in policies_of_run(desk)]:
                raise _taken(f"workload policy {name}", "is not this run's", _RENAME) from None
        return name


def _check_same(pool: types.NodePool, request: types.NodePool) -> None:
    """Refuses a pool of this name that is not what was asked for."""
    who, mine = owner(pool), owner(request)
    if not (who and mine) or (who.project, who.run) != (mine.project, mine.run):
        raise _taken(f"node pool {pool.name}", "is not this run's", _RENAME)
    if _asked(request) != _asked(pool):
        raise _taken(
            f"node pool {pool.name}",
            "was made with other settings",
            "run `ops teardown`, then this again",
        )


def _asked(pool: types.NodePool) -> tuple[object, ...]:
    """What makes one slice another slice."""
    config, placement = pool.config, pool.placement_policy
    kind = (config.machine_type, config.spot, bool(config.flex_start), list(pool.locations))
    reserved = list(config.reservation_affinity.values)
    return *kind, reserved, placement.tpu_topology, placement.policy_name, pool.initial_node_count


def _taken(name: str, why: str, remedy: str) -> InputError:
    return InputError(f"{name} {why}", "what is in the Google Cloud project", remedy)
