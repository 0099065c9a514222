"""What the files of k8s/ say that no answer does: facts of the slice, and how long a run lasts.

A new project's `ops render` would write the same: tests/test_render.py holds each against it.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

HOUR = 3600
SIDES = 3


class Manifests:
    """Values by name, from the answers and from the project's own files under `package`."""

    def __init__(self, catalog: ModuleType, texts: ModuleType, project: Path, package: str) -> None:
        self._catalog, self._texts = catalog, texts
        self._settings, self._ops = project / "run.toml", project / "src" / package / "ops"

    def value(self, answers: Mapping[str, str], name: str) -> str:
        """KeyError: there is no such value."""
        one = self._catalog.find(answers["generation"], answers["topology"])
        if hasattr(one, name):
            return str(getattr(one, name))
        own = {**self._of_pods(answers, one), **self._budget(answers, one)}
        return str({**own, **self._seconds(answers, one)}[name])

    def _of_pods(self, answers: Mapping[str, str], one: Any) -> dict[str, str]:
        pods = self._constants("pods.py")
        host = pods["HOST"][one.chips_per_host]
        first = self._texts.words(answers["capacity"])[0]
        port = pods["TORCH_TPU_PORT"]
        ports = range(port, port + one.devices_per_host)
        return {
            "cpus": host["cpu"],
            "memory": host["memory"],
            "sides": ",".join([*one.topology.split("x"), "1"][:SIDES]),
            "addresses": ",".join(f"localhost:{port}" for port in ports),
            "reservation": first.partition(":")[2].rpartition("/")[2],
            "kinds": ", ".join(kind.partition(":")[0] for kind in self._tried(answers)[0]),
        }

    def _budget(self, answers: Mapping[str, str], one: Any) -> dict[str, str]:
        """Some hours of what was chosen, whatever its size."""
        return {"budget_usd": str(max(50, one.chips * int(answers["slices"]) * 25 // 2))}

    def _seconds(self, answers: Mapping[str, str], one: Any) -> dict[str, int]:
        """As the project's ops/schedule.py counts them."""
        when, job = self._constants("schedule.py"), self._constants("rayjob.py")
        limits = [self._setting("deadline_hours") * HOUR]
        chips = one.chips * int(answers["slices"])
        if price := self._dearest(answers):
            budget = int(self._budget(answers, one)["budget_usd"]) / (price * chips) * HOUR
            limits.append(budget - when["OVERHEAD_SECONDS"])
        run = int(max(1, min(limits)))
        kinds, zones = self._tried(answers)
        waiting = int(len(kinds) * len(zones) * self._setting("attempt_minutes") * 60)
        kept = when["OVERHEAD_SECONDS"] + when["CLEANUP_SECONDS"]
        start = min(run, job["START_SECONDS"])
        return {
            "run_seconds": run,
            "start_seconds": start,
            "lifetime_seconds": waiting + kept + run,
        }

    def _tried(self, answers: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Kinds of capacity and zones, as the project's ops/capacity.py takes them."""
        found = [self._texts.words(answers[name]) for name in ("capacity", "zones")]
        count = 1 if answers["cluster_mode"] == "autopilot" else None
        return found[0][:count], found[1][:count]

    def _dearest(self, answers: Mapping[str, str]) -> float | None:
        """Dollars for a chip and hour; a kind without a price of its own costs like on-demand."""
        prices = tomllib.loads((self._ops / "prices.toml").read_text("utf-8"))
        lines = prices.get(answers["generation"], {}).get(answers["region"], {})
        kinds = [word.partition(":")[0] for word in self._tried(answers)[0]]
        found = [lines.get(kind, lines.get("on-demand")) for kind in kinds]
        return None if None in found else max(found)

    def _setting(self, name: str) -> float:
        """A number of run.toml, which as a template is no TOML."""
        lines = self._settings.read_text("utf-8").splitlines()
        (line,) = [line for line in lines if line.startswith(f"{name} = ")]
        return float(line.partition("#")[0].partition("=")[2])

    def _constants(self, file: str) -> dict[str, Any]:
        """The plain values of a module that the template cannot import."""
        found: dict[str, Any] = {}
        for node in ast.parse((self._ops / file).read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                try:
                    found[node.targets[0].id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
        return found
