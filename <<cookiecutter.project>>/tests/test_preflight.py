"""Pre-flight without the compiler: figures, the bound, limits, messages, the cache."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ops_fixtures import RUN_TOML, settings

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import InputError, NotFound, Refused
from << cookiecutter.package >>.ops import preflight_picture, preflight_texts
from << cookiecutter.package >>.preflight import environment, faults, study, topology
from << cookiecutter.package >>.preflight.bound import bound, usd_per_billion_tokens
from << cookiecutter.package >>.preflight.figures import (
    Figures,
    from_json,
    line,
    refusal,
    to_json,
)
from << cookiecutter.package >>.preflight.remedies import remedies
from << cookiecutter.package >>.preflight.verdict import Price, as_dict, exceeded, too_large, verdict
from << cookiecutter.package >>.settings import load
from << cookiecutter.package >>.slices import find

MESSAGE = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries (24.50G) exceeds available HBM (15.75G). HLO module: step."
)
GIB = 2**30


def figures(**changed: object) -> Figures:
    plain = Figures(
        16.0 * GIB,
        {"parameters": 4.0 * GIB, "temporary": 4.0 * GIB},
        flops=197e12,
        hbm_bytes=81.9e9,
        collectives={"all-gather": (3.0, 2e9)},
        depths=(4,),
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def test_the_bound_is_the_slowest_of_three() -> None:
    found = bound(find("v5e", "2x2"), flops=197e12, hbm_bytes=819e9 / 2, sent_bytes=50e9)
    assert found.parts == pytest.approx({"compute": 1.0, "HBM": 0.5, "ICI": 0.25})
    assert found.seconds == pytest.approx(1.0) and found.by == "compute"
    assert bound(find("v5e", "2x2"), 0, 0, 200e9).by == "ICI"


def test_a_chip_of_two_devices_does_the_work_of_both() -> None:
    one = find("7x", "2x2x1")
    assert bound(one, flops=one.peak_flops / 2, hbm_bytes=0, sent_bytes=0).seconds == 1.0


def test_the_cost_of_tokens() -> None:
    assert usd_per_billion_tokens(1.2, 4, 1e9 / 3600) == pytest.approx(4.8)


def test_the_compilers_refusal_is_read() -> None:
    assert refusal(MESSAGE) == (24.5 * GIB, 15.75 * GIB)
    assert refusal("INVALID_ARGUMENT: something else") is None


def test_figures_come_back_from_json() -> None:
    assert from_json(to_json(figures())) == figures()


def test_the_line_through_two_depths() -> None:
    low = figures(depths=(2,), memory={"parameters": 3.0, "temporary": 10.0}, flops=100.0)
    high = figures(
        depths=(4,),
        memory={"parameters": 5.0, "temporary": 14.0},
        flops=160.0,
        collectives={"all-gather": (5.0, 4e9), "all-reduce": (1.0, 8.0)},
    )
    found = line(low, high, 8)
    assert found.memory == {"parameters": 9.0, "temporary": 22.0}
    assert found.flops == 280.0
    assert found.collectives == {"all-gather": (9.0, 8e9), "all-reduce": (3.0, 24.0)}
    assert found.depths == (2, 4)


@pytest.mark.parametrize(
    ("temporary", "compiled"), [(100 * 2**20, [2, 4, 16]), (300 * 2**20, [2, 4])]
)
def test_a_line_is_drawn_only_where_memory_grows_evenly(
    monkeypatch: pytest.MonkeyPatch, temporary: int, compiled: list[int]
) -> None:
    depths: list[int] = []

    def at(self: study.Study, config: Config, layers: int) -> Figures:
        depths.append(layers)
        return figures(depths=(layers,), memory={"temporary": float(temporary)})

    monkeypatch.setattr(study.Study, "_at", at)
    found = study.Study(lambda text: None).figures(load_with("model.layers=16"))
    assert depths == compiled
    assert len(found.depths) == (1 if 16 in compiled else 2)


def test_a_refusal_at_one_depth_is_one_for_all() -> None:
    refused = Figures(16.0, needed=20.0, depths=(4,))
    assert line(figures(depths=(2,)), refused, 8).needed == 20.0


def test_what_is_kept_goes_by_what_the_figures_depend_on() -> None:
    one = settings()
    assert study.key(one) == study.key(load_with("train.steps=700", "train.learning_rate=1.0"))
    for setting in (
        "train.clip=0.5",
        "train.batch_size=55296",
        "model.width=256",
        "hardware.topology=4x4",
        "hardware.fsdp=2",
    ):
        assert study.key(one) != study.key(load_with(setting)), setting


def load_with(*changes: str) -> Config:
    base = ("train.batch_size=110592", "hardware.generation=v5e", "hardware.topology=2x2")
    return load(RUN_TOML, [*base, "hardware.slices=1", *changes])


@pytest.mark.parametrize(
    ("generation", "shape", "name", "options"),
    [
        ("v5e", "2x2", "v5e:2x2", {"chips_per_host_bounds": [2, 2, 1]}),
        ("v6e", "2x4", "v6e:2x4", {"chips_per_host_bounds": [2, 4, 1]}),
        ("v5e", "4x4", "v5e:4x4", {}),
        ("7x", "2x2x1", "tpu7x:2x2x1", {"chips_per_host_bounds": [2, 2, 1]}),
    ],
)
def test_a_slice_in_the_compilers_words(
    generation: str, shape: str, name: str, options: dict[str, list[int]]
) -> None:
    found = topology.of(settings(generation, shape))
    assert (found["topology"], found["options"]) == (name, options)


def test_a_step_above_a_limit_is_told_with_figure_and_limit() -> None:
    fine = verdict(load_with("preflight.hbm_share=0.9"), figures(), 257, None)
    assert exceeded(fine) is None
    full = verdict(load_with("preflight.hbm_share=0.4"), figures(), 257, None)
    slow = verdict(load_with("preflight.step_seconds=0.5"), figures(), 257, None)
    for found, words in ((full, ("50.0%", "40.0%", "hbm_share")), (slow, ("1 s", "0.5 s"))):
        failure = exceeded(found)
        assert isinstance(failure, InputError)
        assert all(word in str(failure) for word in words)


def test_a_step_that_does_not_fit_is_told_by_how_much() -> None:
    found = verdict(load_with(), Figures(16.0 * GIB, needed=20.0 * GIB), 257, None)
    assert not found.figures.fits
    told = str(too_large(found, ["train.accumulation=2"]))
    assert all(part in told for part in ("125.0%", "4.00 GiB", "train.accumulation=2"))
    assert "none of them alone" in str(too_large(found, []))
    shown = as_dict(found)
    assert shown["bound"] is None and shown["tokens_per_second_at_most"] is None


def test_remedies_are_those_that_the_compiler_took() -> None:
    config = load_with("train.batch_size=64", "train.sequence_length=128")
    tried: list[Config] = []

    def judge(one: Config) -> Figures:
        tried.append(one)
        taken = 20.0 * one.train.batch_size / one.train.accumulation / 64 / one.hardware.slice.chips
        return figures(limit=1.0, memory={"temporary": taken})

    refused = Figures(1.0, needed=5.0)
    found = {one.settings[0]: one for one in remedies(config, refused, judge, lambda text: None)}
    assert not found["train.activation_checkpointing=true"].fits
    assert found["train.accumulation=8"].fits
    assert found["train.batch_size=12"].fits
    assert len(tried) < 12


def result(*found: Figures) -> dict[str, object]:
    slices = [verdict(load_with(), one, 257, Price("on-demand", 1.2, True)) for one in found]
    return {
        "model": "tiny",
        "tokens_per_step": 16,
        "prices_checked": "2025-11-01",
        "slices": [as_dict(one) for one in slices],
        "remedies": [{"settings": ("train.accumulation=2",), "fits": True, "share": 0.5}],
    }


def test_the_table_says_what_is_a_bound_and_what_was_extrapolated() -> None:
    shown = result(figures(depths=(2, 4)), Figures(16.0 * GIB, needed=20.0 * GIB))
    for text in (preflight_texts.text(shown), preflight_texts.markdown(shown)):
        for part in ("at least", "at most", "Extrapolated from 2 and 4", "NO", "by compute"):
            assert part in text
        assert "fits with train.accumulation=2" in text


def test_the_picture_holds_every_slice(tmp_path: Path) -> None:
    shown = result(figures(), Figures(16.0 * GIB, needed=20.0 * GIB))
    preflight_picture.draw(shown, tmp_path / "slices.png")
    assert (tmp_path / "slices.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="png"):
        preflight_picture.draw(shown, tmp_path / "slices.nothing")
    with pytest.raises(Refused, match="--picture"):
        preflight_picture.draw(shown, tmp_path / "no" / "slices.png")


def test_a_compiler_that_cannot_be_installed_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    failing = [sys.executable, "-c", "import sys; sys.exit('no index could be reached')"]
    monkeypatch.setattr(environment, "_commands", lambda folder: [failing])
    with pytest.raises(Refused, match="no index could be reached") as caught:
        environment.python(lambda text: None)
    assert caught.value.exit_code == 4
    assert [path.suffix for path in environment.cache().iterdir()] == [".log"]


def test_an_environment_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'bin').mkdir()"
    touch = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'bin' / 'python').touch()"
    monkeypatch.setattr(
        environment,
        "_commands",
        lambda folder: [[sys.executable, "-c", code, str(folder)] for code in (make, touch)],
    )
    said: list[str] = []
    assert environment.python(said.append).exists()
    assert environment.python(said.append).exists()
    assert len(said) == 1 and "jax" in said[0]


def test_without_torch_xla_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_installed", lambda package: False)
    with pytest.raises(NotFound, match="torch_xla|TorchTPU"):
        faults.available()


def test_a_chip_that_the_compiler_sees_otherwise_is_refused() -> None:
    with pytest.raises(InputError, match="v4"):
        faults.check(settings("v4", "2x2x1"))
