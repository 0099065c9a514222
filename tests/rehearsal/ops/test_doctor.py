"""`ops doctor` against a cloud in order, and with each part of it missing or wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.gcs import Emulator, applied, emulator
from rehearsal.ops.life import Life, part, simulated
from rehearsal.ops.test_command import Shell

TOOLS = ("gcloud", "kubectl", "gke-gcloud-auth-plugin", "git")
pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS), reason="gcloud or kubectl is not installed"
)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Emulator]:
    with emulator() as running, applied(running.environment):
        yield running


@pytest.fixture
def life(tmp_path: Path, bucket: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    override = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
    monkeypatch.setenv(override, f"{bucket.url}/storage/v1/")
    with simulated(tmp_path / "bucket", f"run.storage=gs://{bucket.bucket}/runs") as life:
        install(life)
        yield life


def install(life: Life) -> None:
    """What a cluster has after `ops bootstrap`."""
    cluster = life.cloud.gke.cluster("us-central1", "tpu-training")
    cluster.record.addons_config.ray_operator_config.enabled = True
    store, config = cluster.kubernetes.store, life.desk().config
    identity = {part("ops.accounts").IDENTITY: part("ops.accounts").account(config.cloud, "train")}
    store.put("serviceaccounts", "trainer", {"metadata": {"annotations": identity}}, 0.0)
    hook = {"metadata": {}, "webhooks": [{"name": "tpu.kuberay.gke.io"}]}
    store.put("mutatingwebhookconfigurations", "ray-tpu", hook, 0.0)
    operator = {"metadata": {}, "status": {"readyReplicas": 1}}
    store.put("deployments", "kuberay-operator", operator, 0.0)
    store.put("customresourcedefinitions", "rayjobs.ray.io", definition(), 0.0)


def definition(**schema: Any) -> Any:
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
    return {"metadata": {}, "spec": {"versions": versions}}


def findings(life: Life, folder: Path, code: int, *words: str) -> dict[str, Any]:
    told = Shell(life, folder).run("doctor", "--json", *words, code=code)
    report = json.loads(told.splitlines()[0])
    return {item["name"]: item for item in report["checks"]}


def test_all_in_order(life: Life, tmp_path: Path) -> None:
    found = findings(life, tmp_path, 0)
    wrong = {name: item["found"] for name, item in found.items() if item["outcome"] != "ok"}
    assert not {name for name in wrong if name != "price list"}, wrong
    assert "nothing is in the way of a run" in Shell(life, tmp_path).run("doctor")


def cluster(life: Life) -> Any:
    return life.cloud.gke.cluster("us-central1", "tpu-training")


def store(life: Life) -> Any:
    return cluster(life).kubernetes.store


NODES = "tpu-training-nodes@my-gcp-project.iam.gserviceaccount.com"
OLD = {"type": "object", "properties": {"spec": {"properties": {"entrypoint": {}}}}}
FAULTS: dict[str, tuple[Callable[[Life], Any], int, str]] = {
    "apis": (lambda life: life.cloud.services.disabled.add("tpu"), 4, "gcloud services enable tpu"),
    "node account": (lambda life: life.cloud.services.missing.add(NODES), 3, "ops bootstrap"),
    "registry": (lambda life: life.cloud.services.missing.add("tpu-training"), 3, "ops bootstrap"),
    "quota": (lambda life: life.cloud.services.quotas.clear(), 0, "console"),
    "ray job type": (
        lambda life: store(life).put(
            "customresourcedefinitions", "rayjobs.ray.io", definition(**OLD), 0.0
        ),
        4,
        "upgrade the cluster",
    ),
    "tpu webhook": (
        lambda life: store(life).delete("mutatingwebhookconfigurations", "ray-tpu"),
        3,
        "ops bootstrap",
    ),
    "operators": (
        lambda life: store(life).get("deployments", "kuberay-operator").pop("status"),
        4,
        "kubectl get deployments",
    ),
    "pods identity": (
        lambda life: store(life).delete("serviceaccounts", "trainer"),
        3,
        "ops bootstrap",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_named_with_what_mends_it(life: Life, tmp_path: Path, name: str) -> None:
    spoil, code, mend = FAULTS[name]
    spoil(life)
    found = findings(life, tmp_path, code)[name]
    assert found["outcome"] == ("bad" if code else "warning")
    assert mend in found["mend"]


def test_no_quota_at_all_is_bad(life: Life, tmp_path: Path) -> None:
    life.cloud.services.quotas = dict.fromkeys(life.cloud.services.quotas, 0.0)
    assert "0 chips free" in findings(life, tmp_path, 4)["quota"]["found"]


@pytest.mark.parametrize(
    ("setting", "name", "code"),
    [
        ("cloud.cluster=other", "cluster", 3),
        ("cloud.cluster_mode=autopilot", "mode", 2),
        ("run.storage=gs://no-such-bucket/runs", "storage", 3),
    ],
)
def test_settings_that_do_not_fit_the_cloud(
    life: Life, tmp_path: Path, setting: str, name: str, code: int
) -> None:
    assert findings(life, tmp_path, code, "--set", setting)[name]["outcome"] == "bad"


def test_an_old_cluster_is_bad(tmp_path: Path) -> None:
    with simulated(tmp_path / "bucket", version="1.29.1-gke.1") as life:
        found = findings(life, tmp_path, 4)
    assert found["version"]["exit_code"] == 4
    assert "upgrade" in found["version"]["mend"]


def test_local_checks_ask_nobody(life: Life, tmp_path: Path) -> None:
    findings(life, tmp_path, 0, "--local")
    assert life.cloud.calls == []
