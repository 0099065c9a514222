"""The one way a call leaves for Google Cloud: tried again while that can help, told in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from ..errors import Deadline, Failure, InputError, NoCapacity, NotFound, Refused
from .clock import Clock
from .faults import REMOTE_ERRORS, Kind, kind, text_of

T = TypeVar("T")

PATIENCE_SECONDS = 180
BUSY_SECONDS = 1800
"""How long another operation of the cluster may take: making a large pool needs many minutes."""
LONGEST_PAUSE_SECONDS = 20


class Missing(NotFound):
    """The remote object does not exist: news for most callers, no fault."""


class Busy(Deadline):
    """The cluster works on another operation; most callers wait, and never see this."""


class Exists(Refused):
    """There is one of this name already: made by an earlier try, or not ours."""


class QuotaExceeded(Refused):
    """The Google Cloud project may not have that many."""


class Stockout(NoCapacity):
    """Google has none of these left just now."""


class Remote:
    """Calls functions that each make one request; `say` is told what is waited for."""

    def __init__(self, clock: Clock, say: Callable[[str], None], renew: Callable[[], None]) -> None:
        self._clock, self._say, self._renew = clock, say, renew

    def __call__(
        self, what: str, where: str, call: Callable[[], T], wait_for_others: bool = True
    ) -> T:
        """The answer of `call`.

        `what` completes "could not ..."; `where` names the object. Raises Failure; Busy at once
        unless this shall wait for the cluster's other operations.
        """
        limits = {Kind.PASSING: PATIENCE_SECONDS, Kind.BUSY: BUSY_SECONDS * wait_for_others}
        retrying = Retrying(
            sleep=self._clock.sleep,
            wait=wait_random_exponential(max=LONGEST_PAUSE_SECONDS),
            retry=retry_if_exception(_Patience(self._clock, self._renew, limits)),
            before_sleep=lambda state: self._say(f"{what}: {_waiting(state)}; trying again"),
            reraise=True,
        )
        try:
            return retrying(call)
        except REMOTE_ERRORS as error:
            raise explained(error, what, where) from None


class _Patience:
    """Whether the same call may still work: for some minutes, or once with a fresh login."""

    def __init__(
        self, clock: Clock, renew: Callable[[], None], limits: Mapping[Kind, float]
    ) -> None:
        self._clock, self._renew, self._limits = clock, renew, limits
        self._began = clock.now()
        self._renewed = False

    def __call__(self, error: BaseException) -> bool:
        if not isinstance(error, REMOTE_ERRORS):
            return False
        fault = kind(error)
        if fault is Kind.LOGIN and not self._renewed:
            self._renewed = True
            self._renew()
            return True
        return self._clock.now() - self._began < self._limits.get(fault, 0)


def _waiting(state: RetryCallState) -> str:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, REMOTE_ERRORS):
        return "no answer"
    known = {Kind.BUSY: "the cluster works on another operation", Kind.LOGIN: "the login expired"}
    return known.get(kind(error)) or f"no answer ({text_of(error)})"


def explained(error: Exception, what: str, where: str) -> Failure:
    """The Failure that tells a person what this error means and what mends it."""
    sort, remedy = _MEANING[kind(error)]
    return sort(f"could not {what}: {text_of(error)}", where, remedy)


_MEANING: dict[Kind, tuple[type[Failure], str]] = {
    Kind.PASSING: (
        Deadline,
        "Google did not answer for minutes; run the same command again, it goes on from here",
    ),
    Kind.BUSY: (
        Busy,
        "wait until the cluster's operation has ended (gcloud container operations list), then run "
        "the same command again",
    ),
    Kind.LOGIN: (Refused, "log in again: gcloud auth application-default login"),
    Kind.DENIED: (
        Refused,
        "ask an owner of the Google Cloud project for the right that the message names; "
        "`ops doctor` lists all that are needed",
    ),
    Kind.QUOTA: (
        QuotaExceeded,
        "ask for more quota (console: IAM & Admin, Quotas), or choose a smaller topology, another "
        "zone or another kind of capacity in run.toml",
    ),
    Kind.STOCKOUT: (Stockout, "try another zone or another kind of capacity, or try later"),
    Kind.INVALID: (
        InputError,
        "Google refuses the request as it is: change what the message names in run.toml",
    ),
    Kind.MISSING: (Missing, "check the names in [cloud] of run.toml; `ops bootstrap` makes them"),
    Kind.EXISTS: (Exists, "remove the other one, or choose another name in run.toml"),
}
