"""The whole life of a run against the simulated cloud: every verb, by its own functions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.oauth2.credentials import Credentials

from rehearsal.ops.simulation import Simulation

PACKAGE = os.environ["PACKAGE"]
ZONES = ("us-central1-a", "us-central1-b")
IMAGE = f"us-central1-docker.pkg.dev/my-gcp-project/tpu-training/train@sha256:{'0' * 64}"
KINDS = ("on-demand", "spot", "flex-start", "reservation:team-a")


def part(name: str) -> Any:
    """A module of the generated project, like `part("ops.sweep")`."""
    return importlib.import_module(f"{PACKAGE}.{name}")


class Killed(BaseException):
    """The process ends here: no handler of `ops` may catch it."""


class Life:
    """One process after another working for one run, all against the same cloud.

    `folder` stands for the bucket, or is one. Settings are those of the generated run.toml, with
    `overrides`.
    """

    def __init__(self, cloud: Simulation, folder: Path | str, *overrides: str) -> None:
        self.cloud, self.folder = cloud, folder
        self.overrides = [
            f"run.storage={folder}",
            "cloud.deadline_hours=2",
            'cloud.zones=["us-central1-a", "us-central1-b"]',
            *overrides,
        ]
        self.said: list[str] = []
        self.calls = 0
        self._fatal: tuple[int, str] | None = None

    def die_at(self, call: int, when: str) -> None:
        """The process is killed just "before" or just "after" its remote call of this number."""
        self.calls, self._fatal = 0, (call, when)

    def live_on(self) -> None:
        self._fatal = None

    def desk(self, **options: Any) -> Any:
        """What a new process has: nothing but run.toml, a login and the clock."""
        config = part("settings").load(Path(os.environ["PROJECT"]) / "run.toml", self.overrides)
        desk = part("ops.desk").Desk(config, self.said.append, self.cloud.clock, self._login())
        desk.remote = _Counting(self, desk)
        return desk

    def provision(self) -> Any:
        desk = self.desk()
        return part("ops.provision").provision(desk, self.plan(desk))

    def submit(self) -> Any:
        desk = self.desk()
        return part("ops.submit").submit(desk, IMAGE, self.plan(desk))

    def watch(self, timeout: float = 4 * 3600) -> Any:
        """The job once it ended, as `ops watch` ends: a Failure is raised where it failed."""
        following = part("ops.watch").Watch(self.desk())
        job = following.follow(timeout)
        if failure := part("ops.watch").verdict(job, following.waits_for):
            raise failure
        return job

    def teardown(self) -> Any:
        return part("ops.teardown").teardown(self.desk(), self.prices)

    def sweep(self) -> Any:
        desk = self.desk()
        sweep = part("ops.sweep")
        return sweep.sweep(desk, sweep.look(desk), self.prices)

    def plan(self, desk: Any) -> Any:
        return part("ops.schedule").schedule(desk.config, self.prices)

    @property
    def prices(self) -> Any:
        return part("ops.cost").read_prices()

    def verbs(self) -> dict[str, Callable[[], Any]]:
        return {
            "provision": self.provision,
            "submit": self.submit,
            "watch": self.watch,
            "teardown": self.teardown,
        }

    def count(self, call: Callable[[], Any]) -> Any:
        """Makes one remote call, or dies there."""
        self.calls += 1
        here = self._fatal is not None and self.calls == self._fatal[0]
        if here and self._fatal and self._fatal[1] == "before":
            raise Killed
        try:
            return call()
        finally:
            if here:
                raise Killed

    def _login(self) -> Credentials:
        return Credentials(
            self.cloud.token,
            refresh_token="kept",
            token_uri=f"{self.cloud.url}/token",
            client_id="ops",
            client_secret="none",
        )


def _Counting(life: Life, desk: Any) -> Any:  # noqa: N802 (a class whose base is only known here)
    base = part("ops.remote").Remote

    class Counting(base):  # type: ignore[misc, valid-type]
        def __call__(self, what: str, where: str, call: Callable[[], Any], **options: Any) -> Any:
            return super().__call__(what, where, lambda: life.count(call), **options)

    return Counting(life.cloud.clock, life.said.append, desk._renew)


@contextmanager
def simulated(folder: Path | str, *overrides: str, **options: Any) -> Iterator[Life]:
    """A cloud with the project's cluster in it, and a life; gcloud's variables point there."""
    kept = dict(os.environ)
    with Simulation(part("slices"), project="my-gcp-project") as cloud:
        os.environ.update(cloud.env())
        try:
            cloud.add_cluster("tpu-training", "us-central1", **options)
            yield Life(cloud, folder, *overrides)
        finally:
            os.environ.clear()
            os.environ.update(kept)
