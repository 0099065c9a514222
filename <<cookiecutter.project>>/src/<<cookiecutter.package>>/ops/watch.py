"""Following a run: its state, what its pods wait for, its log; until it ends."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from ..errors import Deadline, Failure, NoCapacity, NotFound
from .clock import rounds
from .desk import Desk
from .job import Job, job_of
from .kube import Kube
from .owned import rayjob_name
from .reasons import Reason, concerning, reasons
from .remote import Missing

POLL_SECONDS = 10
OVERLAP_SECONDS = 60
SILENT_SECONDS = 3600
"""How long the cluster may be out of reach before watching gives up; the job goes on meanwhile."""
IMAGE_SECONDS = 300
"""How long an image may be missing: a right to read it takes minutes until it holds everywhere."""


class StillRunning(Deadline):
    """The time to watch is over; nothing is wrong with the run."""


@dataclass
class Watch:
    """One run, followed by asking; what was told already is not told again.

    `waits_for` is what its pods waited for when they were last looked at.
    """

    desk: Desk
    waits_for: list[Reason] = field(default_factory=list)
    _told: list[Reason] = field(default_factory=list)
    _state: tuple[str, str] = ("", "")
    _log_seen: str = ""
    _lost_since: float | None = None
    _read_at: float | None = None
    _imageless_since: float | None = None

    def follow(self, timeout: float) -> Job:
        """The job once it has ended, however.

        Raises StillRunning after `timeout` seconds, Deadline where the cluster stays out of reach,
        Failure where its image cannot be had, NotFound.
        """
        for _ in rounds(self.desk.clock, POLL_SECONDS, timeout):
            job = self._look()
            if job is not None and job.ended:
                return job
        raise StillRunning(
            f"run {self.desk.run} is still {self._state[1] or 'out of sight'} after {timeout:g} s",
            str(self.desk.place),
            "it goes on by itself, up to its deadline; `ops watch` follows it again",
        )

    def _look(self) -> Job | None:
        """The job's state, told where it changed; None while the cluster is out of reach."""
        kube, name = self.desk.kube(self.desk.place), rayjob_name(self.desk.run)
        try:
            job = job_of(kube.get("rayjobs", name))
            self._tell(job)
            self._tell_log(job)
            if job.status == "PENDING" and not job.ended:
                self._tell_reasons(job)
        except Missing:
            raise NotFound(
                f"there is no job of run {self.desk.run}",
                str(self.desk.place),
                "`ops status` lists the runs there are; `ops submit` starts one",
            ) from None
        except Deadline as lost:
            self._lost(lost)
            return None
        self._lost_since = None
        return job

    def _lost(self, lost: Deadline) -> None:
        now = self.desk.clock.now()
        self._lost_since = self._lost_since or now
        if now - self._lost_since > SILENT_SECONDS:
            raise lost
        self.desk.say(f"the cluster does not answer; the job goes on by itself ({lost.what})")

    def _tell(self, job: Job) -> None:
        state = (job.deployment, job.status)
        if state != self._state:
            self._state, self._imageless_since = state, None
            self.desk.say(
                f"run {self.desk.run}: {job.deployment}, {job.status} {job.message}".strip()
            )

    def _tell_reasons(self, job: Job) -> None:
        kube = self.desk.kube(self.desk.place)
        pods = kube.pods(f"ray.io/cluster={job.cluster}") if job.cluster else []
        about = concerning(kube.events(), [job.name, *([job.cluster] if job.cluster else [])])
        self.waits_for = reasons(pods, about)
        for reason in self.waits_for:
            if reason not in self._told:
                self._told.append(reason)
                self.desk.say(f"waiting: {reason}")
        self._give_up()

    def _give_up(self) -> None:
        """Waiting mends much, but no image comes while a slice is paid for that waits for it."""
        now = self.desk.clock.now()
        lacking = [reason for reason in self.waits_for if reason.kind == "image"]
        self._imageless_since = (self._imageless_since or now) if lacking else None
        if self._imageless_since and now - self._imageless_since > IMAGE_SECONDS:
            raise Failure(
                f"the job cannot begin: {lacking[0].text}",
                str(self.desk.place),
                f"{lacking[0].remedy}; `ops teardown` gives the slice back meanwhile",
            )

    def _tell_log(self, job: Job) -> None:
        """New lines of the pod that submitted the job: it shows the job's output."""
        kube, now = self.desk.kube(self.desk.place), self.desk.clock.now()
        # Overlapping, because the two clocks differ; lines seen before are known by their time.
        since = None if self._read_at is None else int(now - self._read_at) + OVERLAP_SECONDS
        if pod := _submitter(kube, job.name):
            for line in kube.log(pod, since).splitlines():
                stamp, _, words = line.partition(" ")
                stamp = stamp.rstrip("Z")  # 5.5 comes before 5.51, and 5.5Z would not
                if stamp > self._log_seen:
                    self._log_seen = stamp
                    print(words, file=sys.stderr, flush=True)
            self._read_at = now


def log_of(desk: Desk) -> str:
    """The log of the run's job as it is now. Raises NotFound, Failure."""
    kube = desk.kube(desk.place)
    pod = _submitter(kube, rayjob_name(desk.run))
    if pod is None:
        raise NotFound(
            f"run {desk.run} has no log yet",
            str(desk.place),
            "`ops status` tells its state; the log of a failed run lies in the bucket",
        )
    lines = kube.log(pod).splitlines()
    return "".join(f"{line.partition(' ')[2]}\n" for line in lines)


def _submitter(kube: Kube, job: str) -> str | None:
    """The newest pod that submitted the job: a failed submission is tried again by another."""
    pods = kube.pods(f"job-name={job}")
    newest = max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"], default=None)
    return newest["metadata"]["name"] if newest else None


def verdict(job: Job, waited_for: list[Reason]) -> Failure | None:
    """How a job that ended is told; None where it succeeded."""
    if job.succeeded:
        return None
    where = f"RayJob {job.name}"
    lacking = [reason for reason in waited_for if reason.kind in ("capacity", "quota")]
    text = "\n    ".join([job.message or job.reason or "no reason was given", *_texts(waited_for)])
    if job.reason == "PreRunningDeadlineExceeded" and lacking:
        return NoCapacity(f"the job never began: {text}", where, lacking[0].remedy)
    if "DeadlineExceeded" in job.reason and job.reason != "PreRunningDeadlineExceeded":
        return Deadline(
            f"the run's time is over: {text}",
            where,
            "raise cloud.deadline_hours or cloud.budget_usd; a new run of the same name goes on "
            "from the newest checkpoint",
        )
    remedy = "read the log above; `ops teardown` keeps pods, events and logs in the bucket"
    return Failure(f"the job failed: {text}", where, remedy)


def _texts(waited_for: list[Reason]) -> list[str]:
    return [reason.text for reason in waited_for]
