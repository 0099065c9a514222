"""The manifests of k8s/: every kind of slice against Kubernetes' own schema, and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ops_fixtures import RUN_TOML, settings
from typer.testing import CliRunner

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import InputError
from << cookiecutter.package >>.ops import render
from << cookiecutter.package >>.ops.cli import app
from << cookiecutter.package >>.ops.cost import Prices
from << cookiecutter.package >>.ops.manifests import manifests
from << cookiecutter.package >>.ops.pods import HOST
from << cookiecutter.package >>.slices import GENERATIONS, find

KUBERNETES = "1.33"
NO_PRICES = Prices(date.today(), {})
CORE = ("serviceaccount.yaml", "networkpolicy.yaml")
KINDS = ('["on-demand", "spot"]', '["spot", "flex-start"]', '["reservation:team-a"]')
# One host, several, the most; then two slices.
SHAPES = [
    (kind, topology, slices)
    for kind, one in GENERATIONS.items()
    for topology, slices in (
        *((single, 1) for single in one.single_host),
        (one.multi_host[0], 1),
        (one.multi_host[-1], 1),
        (one.multi_host[0], 2),
    )
]


def made(config: Config) -> dict[str, Any]:
    return manifests(config, NO_PRICES)


def pods(files: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    job = files["rayjob.yaml"]["spec"]
    yield "submitter", job["submitterPodTemplate"]
    for spec in (job["rayClusterSpec"], files["raycluster.yaml"]["spec"]):
        yield "head", spec["headGroupSpec"]["template"]
        for group in spec["workerGroupSpecs"]:
            yield "worker", group["template"]


def worker(files: dict[str, Any]) -> Any:
    return next(pod for kind, pod in pods(files) if kind == "worker")


def variables(pod: Any) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


@pytest.mark.parametrize(("generation", "topology", "slices"), SHAPES)
def test_kubernetes_takes_every_pod(generation: str, topology: str, slices: int) -> None:
    for mode, capacity in product(("standard", "autopilot"), KINDS):
        config = settings(generation, topology, slices, cluster_mode=mode, capacity=capacity)
        files = made(config)
        for _, pod in pods(files):
            whole = {"apiVersion": "v1", "kind": "Pod", **pod}
            whole["metadata"] = {"name": "pod", **pod["metadata"]}
            kubernetes_validate.validate(whole, KUBERNETES, strict=True)
        for name in CORE:
            kubernetes_validate.validate(files[name], KUBERNETES, strict=True)


@pytest.mark.parametrize(("generation", "topology", "slices"), SHAPES)
def test_the_file_reads_back_as_the_object(generation: str, topology: str, slices: int) -> None:
    for manifest in made(settings(generation, topology, slices)).values():
        text = render.text_of(manifest)
        assert yaml.safe_load(text) == manifest
        assert text.startswith("# Written by")


def test_head_and_submitter_can_do_nothing_that_they_need_not() -> None:
    for kind, pod in pods(made(settings())):
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, kind
        assert "privileged" not in container["securityContext"], kind
        if kind != "worker":
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_worker_drains_before_it_goes() -> None:
    spec = worker(made(settings()))["spec"]
    (container,) = spec["containers"]
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:3] == ["python", "-m", "<< cookiecutter.package >>.drain"]
    assert 0 < int(command[3]) < spec["terminationGracePeriodSeconds"]
    assert "POD_IP" in variables(worker(made(settings())))


def test_every_machine_of_the_catalog_has_a_size() -> None:
    one = {find(kind, name).chips_per_host for kind, name, _ in SHAPES}
    assert one == set(HOST)


def test_only_torch_tpu_is_told_of_its_slice() -> None:
    assert not [name for name in variables(worker(made(settings()))) if "TORCH_TPU" in name]
    one = accelerated("v5p", "2x2x1")
    assert variables(worker(made(one)))["TORCH_TPU_TOPOLOGY"] == "2,2,1"
    addresses = variables(worker(made(one)))["TORCH_TPU_SLICEBUILDER_ADDRESSES"].split(",")
    assert len(set(addresses)) == 4
    flat = variables(worker(made(accelerated("v5e", "4x4"))))
    assert flat["TORCH_TPU_TOPOLOGY"] == "4,4,1"
    assert "TORCH_TPU_SLICEBUILDER_ADDRESSES" not in flat


def accelerated(generation: str, topology: str) -> Config:
    config = settings(generation, topology)
    hardware = replace(config.hardware)
    object.__setattr__(hardware, "accelerator", "tpu")  # the other framework's file may be missing
    object.__setattr__(config, "hardware", hardware)
    return config


def test_a_file_without_a_date_says_how_long_its_thing_may_live() -> None:
    files = made(settings(deadline_hours="2"))
    assert files["rayjob.yaml"]["spec"]["activeDeadlineSeconds"] == 7200
    assert files["raycluster.yaml"]["metadata"]["annotations"] == {"lifetime-seconds": "7200"}
    assert "expires-at" not in files["raycluster.yaml"]["metadata"]["labels"]


def test_a_budget_that_is_too_small_ends_the_job_at_once() -> None:
    prices = Prices(date.today(), {"v5e": {"us-central1": {"on-demand": 1000.0}}})
    job = manifests(settings(), prices)["rayjob.yaml"]
    assert job["spec"]["activeDeadlineSeconds"] == 1


def test_the_files_of_this_project_are_what_run_toml_says() -> None:
    done = CliRunner().invoke(app, ["render", "--check", "--config", str(RUN_TOML)])
    assert done.exit_code == 0, done.output


def test_the_command(tmp_path: Path) -> None:
    copy = tmp_path / "run.toml"
    copy.write_text(RUN_TOML.read_text("utf-8"), "utf-8")
    words = ["render", "--config", str(copy)]
    planned = CliRunner().invoke(app, [*words, "--dry-run", "--json"])
    assert len(json.loads(planned.stdout)["changed"]) == 6
    assert not (tmp_path / "k8s").exists()
    wrong = CliRunner().invoke(app, [*words, "--check", "--json"])
    assert isinstance(wrong.exception, InputError)
    assert len(json.loads(wrong.stdout)["changed"]) == 6
    first = CliRunner().invoke(app, words)
    assert first.stdout.count("wrote") == 6
    again = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(again.stdout)["changed"] == []
    assert CliRunner().invoke(app, [*words, "--check"]).exit_code == 0


def test_a_disagreement_is_shown_with_the_command_that_mends_it(tmp_path: Path) -> None:
    copy = tmp_path / "run.toml"
    copy.write_text(RUN_TOML.read_text("utf-8"), "utf-8")
    words = ["render", "--config", str(copy)]
    CliRunner().invoke(app, words)
    file = tmp_path / "k8s" / "rayjob.yaml"
    file.write_text(file.read_text("utf-8").replace("trainer", "root"), "utf-8")
    done = CliRunner().invoke(app, [*words, "--check"])
    assert "serviceAccountName: root" in done.stdout
    assert "+" in done.stdout
    failure = done.exception
    assert isinstance(failure, InputError)
    assert f"ops render --config {copy}" in failure.remedy
    assert failure.what.startswith("rayjob.yaml and run.toml")


def test_a_file_that_is_no_text_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "rayjob.yaml").write_bytes(b"\xff")
    assert "rayjob.yaml" in render.write(tmp_path, made(settings())).changed
    assert render.look(tmp_path, made(settings())).changed == []


def test_a_folder_in_a_file_s_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "rayjob.yaml").mkdir()
    with pytest.raises(InputError, match="rayjob"):
        render.look(tmp_path, made(settings()))
