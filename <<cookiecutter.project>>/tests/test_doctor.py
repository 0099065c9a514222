"""What `ops doctor` finds; the cloud is a handful of answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.cloud.container_v1 import types
from ops_fixtures import IMAGE, RUN_TOML
from typer.testing import CliRunner

from << cookiecutter.package >>.errors import NotFound
from << cookiecutter.package >>.ops import checks_cloud, checks_cluster, checks_local
from << cookiecutter.package >>.ops.accounts import APIS, IDENTITY
from << cookiecutter.package >>.ops.checks_cloud import CLOUD
from << cookiecutter.package >>.ops.checks_cluster import CLUSTER, lacks
from << cookiecutter.package >>.ops.checks_local import LOCAL
from << cookiecutter.package >>.ops.cli import app
from << cookiecutter.package >>.ops.doctor import Check, Finding, Room, examine, report, report_text
from << cookiecutter.package >>.ops.remote import Missing

ALL = (*LOCAL, *CLOUD, *CLUSTER)
SETTINGS = [
    "run.project=demo",
    "data.shards=gs://my-bucket/data",
    "cloud.project=my-project",
    "cloud.region=us-central1",
    'cloud.zones=["us-central1-a"]',
    'cloud.capacity=["on-demand", "spot"]',
    "cloud.cluster=demo",
    "cloud.cluster_mode=standard",
    "cloud.registry=us-central1-docker.pkg.dev/my-project/demo",
    "hardware.generation=v5e",
    "hardware.topology=2x2",
]


class Rest:
    """Answers by the last part of the path; what has none is missing."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self.answers: dict[str, dict[str, Any]] = {
            f"{name}.googleapis.com": {"state": "ENABLED"} for name in APIS
        }
        self.answers["us-central1"] = {"quotas": [quota("", 16), quota("PREEMPTIBLE_", 16)]}
        self.answers |= answers

    def get(self, what: str, service: str, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.answers:
            raise Missing(f"could not {what}: no {name}", path, "another remedy")
        return self.answers[name]


def quota(kind: str, limit: float) -> dict[str, Any]:
    return {"metric": f"{kind}TPU_LITE_PODSLICE_V5", "limit": limit, "usage": 0}


def kube(**parts: Any) -> SimpleNamespace:
    """A cluster as `ops bootstrap` leaves it, but for `parts`."""
    schema = {"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}}
    schema["properties"] |= {key: {} for key in ("apiVersion", "kind", "metadata")}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    account = "demo-train@my-project.iam.gserviceaccount.com"
    whole = {
        "definition": lambda name: {"spec": {"versions": [version]}},
        "webhooks": lambda: [{"metadata": {"name": "kuberay-tpu-webhook"}}],
        "deployments": list,
        "service_account": lambda name: {"metadata": {"annotations": {IDENTITY: account}}},
    }
    return SimpleNamespace(**(whole | parts))


def cluster(**parts: Any) -> types.Cluster:
    addons = types.AddonsConfig(ray_operator_config=types.RayOperatorConfig(enabled=True))
    whole = {
        "name": "demo",
        "status": types.Cluster.Status.RUNNING,
        "current_master_version": "1.34.1-gke.3084001",
        "addons_config": addons,
    }
    return types.Cluster(**(whole | parts))


def room(tmp_path: Path, *overrides: str, **things: Any) -> Room:
    """A project in which all is well, but for `things` and the answers to REST calls in them."""
    answers = {
        "demo-nodes@my-project.iam.gserviceaccount.com": {},
        "demo": {"format": "DOCKER"},
        "my-bucket": {"location": "US-CENTRAL1"},
    }
    words = [*SETTINGS, f"run.storage={tmp_path}", *overrides]
    made = Room(RUN_TOML, words, IMAGE, lambda text: None)
    login = SimpleNamespace(valid=True)
    found = {"rest": Rest(answers), "kube": kube(), "cluster": cluster(), "credentials": login}
    made.__dict__.update(found | things)
    return made


def look(item: Check, where: Room) -> Finding:
    """One check, its needs aside."""
    alone = Check(item.name, item.why, item.mend, item.look)
    return examine(where, [alone])[0]


def test_every_check_says_why_and_what_mends_it_and_needs_earlier_ones_only() -> None:
    names: list[str] = []
    for item in ALL:
        assert item.why, item.name
        assert item.mend, item.name
        assert set(item.needs) <= set(names), item.name
        names.append(item.name)
    assert len(set(names)) == len(names)


def test_all_is_well(tmp_path: Path) -> None:
    findings = examine(room(tmp_path), [item for item in ALL if item.name != "tools"])
    kept = {item.name: item.outcome for item in findings}
    # The storage is a folder in this test, and the prices are as old as they are.
    expected = ("places", "storage", "price list")
    assert {name for name, outcome in kept.items() if outcome != "ok"} <= set(expected), findings
    assert report(findings)["exit_code"] == 0


def test_wrong_settings_are_a_finding_and_hide_nothing_that_can_be_seen(tmp_path: Path) -> None:
    where = room(tmp_path, "train.stepz=3")
    where.image = "train:latest"
    findings = {item.name: item for item in examine(where, ALL)}
    assert findings["settings"].outcome == "bad"
    assert "train.stepz" in findings["settings"].found
    assert findings["image"].outcome == "bad"
    assert findings["cluster"].outcome == "skipped"
    assert report(list(findings.values()))["exit_code"] == 2


def test_the_report_names_the_reason_and_the_command(tmp_path: Path) -> None:
    text = report_text(report([look(checks_cloud.registry, room(tmp_path, rest=Rest({})))]))
    assert "why it matters: the nodes pull the image from it" in text
    assert "what to do: ops bootstrap" in text


def test_a_tool_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = look(checks_local.tools, room(tmp_path))
    assert (found.outcome, found.exit_code) == ("bad", 3)
    assert "gcloud components install gke-gcloud-auth-plugin" in found.mend


@pytest.mark.parametrize(
    ("item", "override", "outcome", "fragment"),
    [
        (checks_local.account_names, f"cloud.cluster={'x' * 25}", "bad", "31 characters"),
        (checks_local.budget, "cloud.budget_usd=1", "bad", "cloud.budget_usd leaves"),
        (checks_local.prices, "hardware.generation=v4", "bad", "topology"),
        (checks_cloud.registry, "cloud.registry=docker.io/me", "bad", "no repository"),
        (checks_cluster.mode, "cloud.cluster_mode=autopilot", "bad", 'the cluster is "standard"'),
        (checks_local.places, "data.shards=here", "warning", "data.shards = "),
    ],
)
def test_settings_that_do_not_fit(
    tmp_path: Path, item: Check, override: str, outcome: str, fragment: str
) -> None:
    found = look(item, room(tmp_path, override))
    assert (found.outcome, fragment in found.found) == (outcome, True), found


@pytest.mark.parametrize(
    ("item", "things", "exit_code", "mend"),
    [
        (
            checks_cloud.apis,
            {"rest": Rest({"sts.googleapis.com": {"state": "DISABLED"}})},
            4,
            "gcloud services enable sts.googleapis.com --project=my-project",
        ),
        (checks_cloud.node_account, {"rest": Rest({})}, 3, "ops bootstrap"),
        (
            checks_cluster.version,
            {"cluster": cluster(current_master_version="1.29.9-gke.1")},
            4,
            "gcloud container clusters upgrade demo --location=us-central1 --project=my-project "
            "--master",
        ),
        (
            checks_cluster.cluster,
            {"cluster": cluster(status=types.Cluster.Status.ERROR)},
            4,
            "wait until",
        ),
        (checks_cluster.tpu_webhook, {"kube": kube(webhooks=list)}, 3, "ops bootstrap"),
        (
            checks_cluster.pods_identity,
            {"kube": kube(service_account=lambda name: {"metadata": {}})},
            3,
            "ops bootstrap",
        ),
        (
            checks_cluster.operators,
            {"kube": kube(deployments=lambda: [{"metadata": {"name": "kuberay-operator"}}])},
            4,
            "kubectl get deployments",
        ),
    ],
)
def test_parts_that_are_missing(
    tmp_path: Path, item: Check, things: dict[str, Any], exit_code: int, mend: str
) -> None:
    found = look(item, room(tmp_path, **things))
    assert (found.outcome, found.exit_code) == ("bad", exit_code), found
    assert found.mend.startswith(mend)


@pytest.mark.parametrize(
    ("limits", "outcome", "fragment"),
    [
        ([quota("", 4), quota("PREEMPTIBLE_", 4)], "ok", "on-demand: 4 chips free"),
        ([quota("", 0), quota("PREEMPTIBLE_", 4)], "warning", "on-demand: 0 chips free"),
        ([quota("", 0), quota("PREEMPTIBLE_", 0)], "bad", "4 chips are needed"),
        ([], "warning", "not visible here: look in the console"),
    ],
)
def test_quota(tmp_path: Path, limits: list[dict[str, Any]], outcome: str, fragment: str) -> None:
    rest = Rest({"us-central1": {"quotas": limits}})
    found = look(checks_cloud.quota, room(tmp_path, rest=rest))
    assert (found.outcome, fragment in found.found) == (outcome, True), found


def test_a_quota_that_is_not_shown_is_never_guessed(tmp_path: Path) -> None:
    where = room(tmp_path, "hardware.generation=v6e", 'cloud.capacity=["on-demand"]')
    found = look(checks_cloud.quota, where)
    assert found.outcome == "warning"
    assert "not visible here" in found.found


def test_a_bucket_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    found = look(checks_cloud.writing, room(tmp_path, f"run.storage={tmp_path / 'file'}"))
    assert (found.outcome, found.exit_code) == ("bad", 4)


def test_the_probe_leaves_nothing(tmp_path: Path) -> None:
    assert look(checks_cloud.writing, room(tmp_path)).outcome == "ok"
    assert list(tmp_path.iterdir()) == []


def test_fields_that_an_older_kuberay_lacks(tmp_path: Path) -> None:
    known: dict[str, Any] = {key: {} for key in ("entrypoint", "submissionMode", "rayClusterSpec")}
    whole = {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": {"properties": known}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"properties": whole}}}
    old = kube(definition=lambda name: {"spec": {"versions": [version]}})
    found = look(checks_cluster.ray_job_type, room(tmp_path, kube=old))
    assert found.outcome == "bad"
    assert "spec.preRunningDeadlineSeconds" in found.found


def test_fields_within_lists() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"items": {"properties": {"b": {}}}}}}
    assert lacks({"a": [{"b": 1, "c": 2}, {"c": 3}]}, schema) == ["a[].c"]


def test_no_cluster_skips_what_lies_in_it(tmp_path: Path) -> None:
    class Nowhere(Room):
        @property
        def cluster(self) -> Any:
            raise NotFound("no cluster demo", "us-central1", "ops bootstrap")

    where = room(tmp_path)
    where.__class__ = Nowhere
    findings = {item.name: item for item in examine(where, ALL)}
    assert findings["cluster"].exit_code == 3
    assert findings["tpu webhook"].found == "not looked at: first mend cluster"


def test_the_command_tells_all_and_ends_with_the_first_fault_s_code() -> None:
    words = ["doctor", "--local", "--json", "--config", str(RUN_TOML), "--image", "train:latest"]
    done = CliRunner().invoke(app, words)
    told = json.loads(done.stdout)
    assert [item["name"] for item in told["checks"]] == [item.name for item in LOCAL]
    assert (done.exit_code, told["exit_code"]) in ((2, 2), (3, 3)), told
