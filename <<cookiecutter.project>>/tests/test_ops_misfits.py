"""Manifests by hand: what a cluster would refuse or never start is said in a line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ops_fixtures import RUN_TOML, settings
from typer.testing import CliRunner

from << cookiecutter.package >>.errors import InputError
from << cookiecutter.package >>.ops.cli import app
from << cookiecutter.package >>.ops.misfits import ACCELERATOR, TOPOLOGY, misfits

REGISTRY = settings().cloud.registry
CHIPS = "google.com/tpu"


def cluster(selector: dict[str, str], image: str = f"{REGISTRY}/train", **group: Any) -> Any:
    tpu = {CHIPS: group.pop("chips", "4")}
    worker = {"name": "ray-worker", "image": image, "resources": {"limits": tpu}}
    pod = {"spec": {"nodeSelector": selector, "containers": [worker]}}
    head = {"containers": [{"name": "ray-head", "image": image, **group.pop("head", {})}]}
    workers = {"groupName": "tpu", "replicas": 1, "numOfHosts": 1, "template": pod, **group}
    spec = {"headGroupSpec": {"template": {"spec": head}}, "workerGroupSpecs": [workers]}
    return {"kind": "RayCluster", "spec": spec}


def selected(topology: str = "2x2", label: str = "tpu-v5-lite-podslice") -> dict[str, str]:
    return {ACCELERATOR: label, TOPOLOGY: topology}


def told(folder: Path, manifest: Any) -> list[str]:
    (folder / "mine.yaml").write_text(yaml.safe_dump(manifest), "utf-8")
    return misfits(folder, settings())


def test_what_fits_is_not_mentioned(tmp_path: Path) -> None:
    assert told(tmp_path, cluster(selected())) == []
    job = {"kind": "RayJob", "spec": {"rayClusterSpec": cluster(selected())["spec"]}}
    assert told(tmp_path, job) == []
    assert told(tmp_path, {"kind": "ConfigMap", "data": {}}) == []


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (cluster({ACCELERATOR: "tpu-v5-lite-podslice"}), f"lacks {TOPOLOGY}"),
        (cluster({}), f"lacks {ACCELERATOR} and {TOPOLOGY}"),
        (cluster(selected("4x4"), numOfHosts=4), "waits for a v5e 4x4: run.toml rents v5e 2x2"),
        (cluster(selected(), numOfHosts="1"), "numOfHosts is '1' and a slice of 2x2 has 1"),
        (cluster(selected(), numOfHosts=2), "numOfHosts is 2 and a slice of 2x2 has 1"),
        (cluster(selected(), replicas=2), "replicas is 2 and counts slices, not hosts"),
        (cluster(selected("3x3")), "GKE has no tpu-v5-lite-podslice of topology 3x3"),
        (cluster(selected(label="gpu")), "GKE has no gpu of topology 2x2"),
        (cluster(selected(), chips="1"), "asks for 1 chips and a host has 4"),
        (cluster(selected(), chips=None), f"no container has whole chips as its limit of {CHIPS}"),
        (cluster(selected(), chips="9" * 5000), "no container has whole chips"),
        (
            cluster(selected(), rayStartParams={"resources": '"{\\"google.com/tpu\\": 4}"'}),
            'Ray knows chips as "TPU"',
        ),
        (
            cluster(selected(), head={"resources": {"limits": {CHIPS: 4}}}),
            "the head asks for chips",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, manifest: Any, why: str) -> None:
    (line,) = told(tmp_path, manifest)
    assert why in line
    assert line.startswith(f"{tmp_path.name}/mine.yaml: ")


def test_a_slice_of_several_hosts_needs_their_number(tmp_path: Path) -> None:
    lines = told(tmp_path, cluster(selected("4x4"), numOfHosts=None))
    assert "numOfHosts is left out and a slice of 4x4 has 4" in lines[0]


def test_a_group_without_chips_is_nobody_s_fault(tmp_path: Path) -> None:
    manifest = cluster({}, chips=None)
    del manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]
    assert told(tmp_path, manifest) == []


def test_an_image_from_elsewhere_cannot_train(tmp_path: Path) -> None:
    lines = told(tmp_path, cluster(selected(), image="rayproject/ray:2.40.0"))
    assert len(lines) == 2
    assert all("rayproject/ray:2.40.0" in line and "neither `train`" in line for line in lines)


def test_a_job_is_submitted_in_a_way_that_there_is(tmp_path: Path) -> None:
    spec = {"rayClusterSpec": cluster(selected())["spec"], "submissionMode": "HTTPmode"}
    (line,) = told(tmp_path, {"kind": "RayJob", "spec": spec})
    assert "submissionMode 'HTTPmode' is none of KubeRay's" in line


def test_what_lies_in_a_list_is_looked_at(tmp_path: Path) -> None:
    items = [cluster(selected(), replicas=2), cluster(selected())]
    assert len(told(tmp_path, {"kind": "List", "items": items})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "kind: RayJob\nspec: 3",
        "kind: RayCluster\nspec: {workerGroupSpecs: 7}",
        "kind: RayCluster\nspec: {headGroupSpec: [1], workerGroupSpecs: {a: b}}",
        "- RayCluster",
        "kind: List\nitems: {a: b}",
        "",
    ],
)
def test_what_is_no_cluster_breaks_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    assert misfits(tmp_path, settings()) == []


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: \xff",
        "a: \0",
        "when: 2020-99-99",
        'x: !!int ""',
        "x: !!bool abc",
        "x: !!timestamp abc",
        "x: !unknown abc",
        "[" * 3000,
        f"x: {'9' * 5000}",
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.yml").write_text(text, "latin-1")
    (line,) = misfits(tmp_path, settings())
    assert "mine.yml: it cannot be read as YAML: " in line


def test_a_folder_in_a_file_s_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").mkdir()
    assert "cannot be read" in misfits(tmp_path, settings())[0]


def test_the_check_says_why_and_fails(tmp_path: Path) -> None:
    copy = tmp_path / "run.toml"
    copy.write_text(RUN_TOML.read_text("utf-8"), "utf-8")
    words = ["render", "--config", str(copy)]
    assert CliRunner().invoke(app, words).exit_code == 0
    told(tmp_path / "k8s", cluster(selected(), replicas=7))
    done = CliRunner().invoke(app, [*words, "--check"])
    assert "k8s/mine.yaml: worker group tpu: replicas is 7" in done.stdout
    assert isinstance(done.exception, InputError)
    assert "mine.yaml" not in done.exception.remedy
