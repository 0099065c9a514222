from __future__ import annotations

from pathlib import Path

import pytest
from run_fixtures import RUN_TOML, small

from << cookiecutter.package >>.errors import InputError, NotFound
from << cookiecutter.package >>.settings import load


def test_the_project_s_own_file_is_right() -> None:
    config = load(RUN_TOML)
    assert config.hardware.world == config.hardware.slice.hosts * config.hardware.slices or (
        config.hardware.accelerator == "tpu"
    )


def test_set_overrides_and_keeps_types() -> None:
    config = load(RUN_TOML, ["train.learning_rate=2"])
    assert config.train.learning_rate == 2.0
    assert load(RUN_TOML, ["data.text_field=7"]).data.text_field == "7"
    places = ["cloud.region=us-east5", 'cloud.zones=["us-east5-a", "us-east5-b"]']
    assert load(RUN_TOML, places).cloud.zones == ("us-east5-a", "us-east5-b")


@pytest.mark.parametrize(
    ("override", "fragment"),
    [
        ("train.stepz=3", "train.stepz: there is no such key; near to it: train.steps"),
        ("trian.steps=3", "trian: there is no such key; near to it: train"),
        ("train.steps=many", "train.steps = 'many': input should be a valid integer"),
        ("train.steps=1.5", "train.steps = 1.5"),
        ("train.steps=true", "train.steps = True"),
        ("train.steps=0", "train.steps = 0: input should be greater than or equal to 1"),
        ("train.learning_rate=nan", "train.learning_rate"),
        ("train.learning_rate=-1", "train.learning_rate = -1"),
        ("train.final_learning_rate=2", "train.final_learning_rate = 2"),
        ("train.warmup_steps=200", "leaves nothing of train.steps"),
        ("train.accumulation=3", "does not divide into train.accumulation = 3"),
        ("train.compute_dtype=float8", "'bfloat16' or 'float32'"),
        ("train.sequence_length=1", "train.sequence_length = 1"),
        ("model.preset=huge", "'tiny', '125m', '1b' or '8b'"),
        ("model.width=100", "set model.width to a multiple of 8"),
        ("model.kv_heads=3", "is no multiple of model.kv_heads = 3"),
        ("hardware.accelerator=gpu", "choose one of"),
        ("hardware.topology=3x3", "hardware: v5e has no topology"),
        ("hardware.generation=v9", 'no TPU generation "v9"'),
        ("hardware.placement=everywhere", "'slice' or 'any'"),
        ("hardware.fsdp=3", "does not divide"),
        ("run.name=My Run", "run.name"),
        ("run.storage=", "run.storage"),
        ("run.seed=-1", "run.seed = -1"),
        ("cloud.zones=[]", "cloud.zones"),
        ("cloud.budget_usd=0", "cloud.budget_usd = 0"),
        ('cloud.zones=["mars-north1-a"]', '"mars-north1-a" is no zone of'),
        ('cloud.capacity=["reserved"]', '"reserved" is no kind of capacity; choose of on-demand'),
        ('cloud.capacity=["flex-start", "spot"]', "flex-start must come last"),
        ("cloud.pools=many", "'autoscaled' or 'fixed'"),
        ("cloud.deadline_hours=1e9", "cloud.deadline_hours = 1000000000.0"),
        ("cloud.attempt_minutes=1e308", "cloud.attempt_minutes = 1e+308"),
        ('cloud.capacity=["spot", "spot"]', "cloud.capacity: each is named once"),
    ],
)
def test_a_wrong_setting_is_named(override: str, fragment: str) -> None:
    slice_of_four = ["hardware.generation=v5e", "hardware.topology=2x2", "hardware.slices=1"]
    with pytest.raises(InputError) as caught:
        load(RUN_TOML, [*slice_of_four, override])
    assert fragment in caught.value.what and f"--set {override}" in caught.value.where
    assert caught.value.exit_code == 2


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        load(RUN_TOML, ["train.steps=0", "model.layers=0", "data.colour=red"])
    assert all(key in caught.value.what for key in ("train.steps", "model.layers", "data.colour"))


@pytest.mark.parametrize("override", ["train.steps", "steps=3", "=3", ".steps=3", "train.=3"])
def test_what_is_no_override_is_refused(override: str) -> None:
    with pytest.raises(InputError, match="section.key=value"):
        load(RUN_TOML, [override])


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    text = RUN_TOML.read_text().splitlines()
    path = tmp_path / "run.toml"
    path.write_text("\n".join(line for line in text if not line.startswith("sequence_length")))
    with pytest.raises(InputError, match="train.sequence_length: this key is missing"):
        load(path)


@pytest.mark.parametrize("content", [b"[run\n", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_what_is_no_toml_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not TOML"):
        load(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        load(tmp_path / "no.toml")
    assert caught.value.exit_code == 3


def test_a_batch_must_spread_over_the_devices(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="set train.batch_size to a multiple of 3"):
        small(tmp_path, hardware_workers=3)


def test_local_puts_this_machine_in_place_of_the_slice(tmp_path: Path) -> None:
    config = load(RUN_TOML, local=True)
    assert config.hardware.placement == "any"
    assert config.hardware.world == 1
    assert config.run.storage == str(RUN_TOML.parent / "runs")
    assert config.data.shards.startswith(str(RUN_TOML.parent / "data"))
    elsewhere = load(RUN_TOML, [f"run.storage={tmp_path}"], local=True)
    assert elsewhere.run.storage == str(tmp_path)
