"""What is made of the answers: the verdict on them, defaults, and texts for files of any kind."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent
PROJECT, PACKAGE = "<<cookiecutter.project>>", "<<cookiecutter.package>>"
# In the place of answers that are wrong, so that defaults made of them add no fault of their own.
SAFE = {"project": "tpu-training", "gcp_project": "my-gcp-project", "generation": "v5e"}
SEQUENCES_PER_DEVICE = 4
COMPARED = {"v5e": "v6e", "v6e": "v5e", "v5p": "7x", "7x": "v5p", "v4": "v5p"}
"""The generation that somebody who chose one would look at too."""


class Verdicts:
    """The filters of cookiecutter.json and of the hooks."""

    def __init__(self, load: Callable[[str], ModuleType], refusal: type[BaseException]) -> None:
        self._catalog = load(f"{PROJECT}/src/{PACKAGE}/slices.py")
        self._texts = load("template_rules.py")
        self._rules = self._texts.Rules(self._catalog)
        self.words = self._texts.words
        self._refusal = refusal
        facts = load("template_manifests.py")
        self.manifest = facts.Manifests(self._catalog, self._texts, ROOT / PROJECT, PACKAGE).value

    def checked(self, answers: MutableMapping[str, Any]) -> str:
        """Put every answer into its normal form, in place; or refuse them, all faults at once."""
        questions = self._rules.of(answers["_choices"])
        asked = {**answers, **{name: None for name in questions if name not in answers}}
        right, wrong = self._judge(asked)
        if wrong:
            raise self._refusal(_report(asked, wrong, self._given(answers, right)))
        answers.update(right)
        return "yes"

    def suggest(self, answers: Mapping[str, Any], question: str) -> str:
        """The default of a question, one that depends on the answers before it."""
        return self._defaults(answers)[question]

    def _defaults(self, answers: Mapping[str, Any]) -> dict[str, str]:
        right = SAFE | self._judge(answers)[0]
        zone = self._catalog.GENERATIONS[right["generation"]].default_zone
        region = self._texts.region_of(zone)
        return {
            "package": self._package(right["project"]),
            "topology": self._rules.starter(right["generation"]),
            "region": region,
            "zones": zone if right.get("region", region) == region else f"{right['region']}-a",
            "bucket": f"{right['gcp_project']}-{right['project']}",
        }

    def batch_size(self, answers: Mapping[str, str]) -> str:
        """Sequences of one step: as many for each device, so that any slice divides them evenly."""
        one = self._catalog.find(answers["generation"], answers["topology"])
        devices = one.hosts * one.devices_per_host * int(answers["slices"])
        return str(devices * SEQUENCES_PER_DEVICE)

    def compared(self, answers: Mapping[str, str]) -> str:
        """A slice of another generation that the batch spreads over, as GENERATION:TOPOLOGY.

        It has the same topology, or the most alike number of chips.
        """
        generation, slices = COMPARED[answers["generation"]], int(answers["slices"])
        own = self._catalog.find(answers["generation"], answers["topology"])
        others = [
            one
            for topology in self._catalog.topologies(generation)
            if (one := self._catalog.find(generation, topology)).multi_host or slices == 1
            if int(self.batch_size(answers)) % (one.hosts * one.devices_per_host * slices) == 0
        ]
        nearest = min(others, key=lambda one: (one.topology != own.topology, _far(one, own)))
        return f"{generation}:{nearest.topology}"

    def unchosen(self, answers: Mapping[str, str]) -> list[str]:
        """Files of the template that belong to options not chosen, as paths within the project."""
        places = [
            ROOT / PROJECT / place for place, wanted in options(answers).items() if not wanted
        ]
        files = {file for place in places for file in (place, *place.rglob("*")) if file.is_file()}
        paths = [file.relative_to(ROOT / PROJECT).as_posix() for file in files]
        return sorted(path.replace(PACKAGE, answers["package"]) for path in paths)

    def _given(self, answers: Mapping[str, Any], right: Mapping[str, str]) -> dict[str, str]:
        """The right answers that are not what the question would be answered with anyway."""
        raw = json.loads((ROOT / "cookiecutter.json").read_text(encoding="utf-8"))
        return {
            question: answer
            for question, answer in right.items()
            if answer != (raw | self._defaults(answers))[question]
        }

    def _package(self, project: str) -> str:
        name = project.replace("-", "_")
        try:
            return str(self._rules.package(name, {}))
        except self._texts.AnswerError:
            return f"{name}_training"

    def _judge(self, answers: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Exception]]:
        rules = self._rules.of(answers.get("_choices", {}))
        right: dict[str, str] = {}
        wrong: dict[str, Exception] = {}
        for question in [name for name in answers if name in rules]:
            answer = answers[question]
            try:
                if not isinstance(answer, str) or not answer.strip():
                    raise self._texts.AnswerError("an answer, as text", "one is in docs/prompts.md")
                right[question] = rules[question](answer.strip(), right)
            except self._texts.AnswerError as fault:
                wrong[question] = fault
        return right, wrong


def _far(one: Any, other: Any) -> float:
    return abs(math.log(one.chips / other.chips))


def filters(
    load: Callable[[str], ModuleType], refusal: type[BaseException]
) -> dict[str, Callable[..., Any]]:
    """The filters that cookiecutter.json, the hooks and the project's files use, by name."""
    verdicts = Verdicts(load, refusal)
    return {
        "checked": verdicts.checked,
        "suggest": verdicts.suggest,
        "batch_size": verdicts.batch_size,
        "compared": verdicts.compared,
        "judged": judged,
        "manifest": verdicts.manifest,
        "unchosen": verdicts.unchosen,
        "words": verdicts.words,
        "toml": quoted,
        "yaml": quoted,
        "scalar": scalar,
        "markdown": markdown,
    }


def judged(answers: Mapping[str, str]) -> str:
    """Whether CI asks the TPU's compiler; empty where not.

    It sees a v4 chip's two cores as two devices, torch_xla as one.
    """
    right = answers["framework"] == "torch_xla" and answers["generation"] != "v4"
    return "yes" if right else ""


def options(answers: Mapping[str, str]) -> dict[str, bool]:
    """The files and folders of the project that not every answer brings: which of them these do."""
    xla, tpu = (answers["framework"] == name for name in ("torch_xla", "torch_tpu"))
    return {
        ".github": answers["ci"] in ("both", "github"),
        ".github/actions/preflight": bool(judged(answers)),
        "cloudbuild": answers["ci"] in ("both", "cloudbuild"),
        f"src/{PACKAGE}/accelerator/_compiled.py": xla,
        f"src/{PACKAGE}/accelerator/xla.py": xla,
        f"src/{PACKAGE}/ops/commands_preflight.py": xla,
        f"src/{PACKAGE}/ops/preflight_cases.py": xla,
        f"src/{PACKAGE}/ops/preflight_picture.py": xla,
        f"src/{PACKAGE}/ops/preflight_texts.py": xla,
        f"src/{PACKAGE}/preflight": xla,
        "tests/test_compiled.py": xla,
        f"src/{PACKAGE}/accelerator/_attention.py": xla,
        f"src/{PACKAGE}/accelerator/_gathered.py": xla,
        f"src/{PACKAGE}/accelerator/_lookup.py": xla,
        f"src/{PACKAGE}/accelerator/_shards.py": xla,
        "tests/test_attention.py": xla,
        "tests/test_lookup.py": xla,
        "tests/test_xla.py": xla,
        "tests/test_preflight.py": xla,
        "tests/test_preflight_compiler.py": xla,
        "tests/test_preflight_kept.py": xla,
        "tests/test_preflight_key.py": xla,
        "tests/test_preflight_verdict.py": xla,
        "tests/test_preflight_program.py": xla,
        "tests/test_preflight_push.py": xla,
        "tests/preflight_fixtures.py": xla,
        f"src/{PACKAGE}/accelerator/tpu.py": tpu,
        "tests/test_tpu.py": tpu,
    }


def quoted(value: str | list[str]) -> str:
    """A string or list of strings as TOML, YAML, JSON and Python all read it, quotes and all."""
    return json.dumps(value, ensure_ascii=False)


def scalar(text: str) -> str:
    """A string as YAML, bare where nothing else could be meant: as `ops render` writes it."""
    return yaml.safe_dump(text, width=float("inf")).removesuffix("...\n").rstrip("\n")


def markdown(text: str) -> str:
    """A text that Markdown shows as it stands."""
    return re.sub(r"([\\`*_{}\[\]()<>#+.!|~&$-])", r"\\\1", text)


def _report(answers: Mapping[str, Any], wrong: Mapping[str, Any], given: Mapping[str, str]) -> str:
    count = "1 answer" if len(wrong) == 1 else f"{len(wrong)} answers"
    lines = [f"{count} cannot work, so nothing was written.", ""]
    for question, fault in wrong.items():
        answer = repr(answers[question])
        shown = answer if len(answer) <= 100 else f"{answer[:100]}..."
        lines += [f"  {question}: {shown}"]
        lines += [f"    rule: {fault.rule}", f"    example: {fault.example}", ""]
    kept = " ".join(shlex.quote(f"{question}={answer}") for question, answer in given.items())
    lines += [f"To keep your other answers, end the command with: {kept}"] if kept else []
    return "\n".join(lines).rstrip()
