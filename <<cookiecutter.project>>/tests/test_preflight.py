"""Pre-flight without the compiler: figures, the bound, limits, messages, the key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ops_fixtures import RUN_TOML, settings

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import InputError, NotFound, Refused
from << cookiecutter.package >>.ops import preflight_picture, preflight_texts
from << cookiecutter.package >>.preflight import faults, study, topology
from << cookiecutter.package >>.preflight.bound import bound, usd_per_billion_tokens
from << cookiecutter.package >>.preflight.figures import Figures, line, refusal
from << cookiecutter.package >>.preflight.program import BETWEEN
from << cookiecutter.package >>.preflight.remedies import Remedy, remedies
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


def test_what_goes_between_slices_is_no_load_of_ici() -> None:
    sent = {"all-gather": (3.0, 2e9), BETWEEN: (1.0, 7e9)}
    assert figures(collectives=sent).sent_bytes == 2e9


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


def test_memory_that_falls_with_depth_is_not_drawn_on() -> None:
    low, high = (figures(depths=(n,), memory={"temporary": t}) for n, t in ((2, 9.0), (4, 7.0)))
    assert line(low, high, 32).memory == {"temporary": 7.0}


def compiled_as(monkeypatch: pytest.MonkeyPatch, found: Callable[[int], Figures]) -> list[int]:
    """The numbers of layers that are asked for; of each this says what the compiler finds."""
    depths: list[int] = []

    def at(self: study.Study, config: Config, layers: int) -> Figures:
        depths.append(layers)
        return replace(found(layers), depths=(layers,))

    monkeypatch.setattr(study.Study, "_at", at)
    return depths


@pytest.mark.parametrize(
    ("temporary", "compiled"), [(100 * 2**20, [2, 4, 18]), (300 * 2**20, [2, 4])]
)
def test_a_line_is_drawn_only_where_memory_grows_evenly(
    monkeypatch: pytest.MonkeyPatch, temporary: int, compiled: list[int]
) -> None:
    depths = compiled_as(monkeypatch, lambda layers: figures(memory={"temporary": temporary}))
    found = study.Study(lambda text: None).figures(load_with("model.layers=18"))
    assert depths == compiled
    assert len(found.depths) == (1 if 18 in compiled else 2)


@pytest.mark.parametrize(
    ("layer", "compiled"), [(0.5, [2, 4]), (0.9, [2, 4, 20]), (1.1, [2, 4, 20]), (2.0, [2, 4])]
)
def test_near_the_limit_no_line_decides(
    monkeypatch: pytest.MonkeyPatch, layer: float, compiled: list[int]
) -> None:
    """`layer`: of twenty of them all HBM is taken at 1."""
    limit = 20.0 * GIB
    depths = compiled_as(
        monkeypatch, lambda n: figures(limit=limit, memory={"temporary": n * layer * GIB})
    )
    config = load_with("model.layers=20")
    found = study.Study(lambda text: None).figures(config)
    assert depths == compiled
    assert found.depths == ((20,) if 20 in compiled else (2, 4))
    estimated = study.Study(lambda text: None).estimate(config)
    assert estimated.depths == (2, 4), "a remedy is tried along the line"


@pytest.mark.parametrize(("low", "high", "needed"), [(12.0, 20.0, 36.0), (18.0, 20.0, 24.0)])
def test_a_refusal_at_one_depth_goes_on_along_the_line(
    low: float, high: float, needed: float
) -> None:
    fits = Figures(16.0, {"temporary": low}, depths=(2,))
    shallow = fits if low < 16 else Figures(16.0, needed=low, depths=(2,))
    found = line(shallow, Figures(16.0, needed=high, depths=(4,)), 8)
    assert (found.needed, found.depths) == (needed, (2, 4))


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


def test_a_file_that_the_model_takes_in_makes_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(study.PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("ops"))
    monkeypatch.setattr(study, "PACKAGE", tmp_path / "package")
    before = study.key(load_with())
    (tmp_path / "package" / "ops").mkdir()
    (tmp_path / "package" / "ops" / "verb.py").touch()
    assert study.key(load_with()) == before
    (tmp_path / "package" / "layers.py").touch()
    assert study.key(load_with()) != before


def test_a_package_beside_ours_makes_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "beside"):
        (tmp_path / "src" / name).mkdir(parents=True)
    monkeypatch.setattr(study, "PACKAGE", tmp_path / "src" / "ours")
    before = study.key(load_with())
    (tmp_path / "src" / "beside" / "layers.py").touch()
    assert study.key(load_with()) != before


@pytest.mark.parametrize("name", ["XLA_FLAGS", "LIBTPU_INIT_ARGS"])
def test_flags_of_the_compiler_make_another_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = study.key(load_with())
    monkeypatch.setenv(name, "--xla_of_no_matter=1")
    assert study.key(load_with()) != before


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
    for found, words in ((full, ("50%", "40%", "hbm_share")), (slow, ("1 s", "0.5 s"))):
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


@pytest.mark.parametrize(
    ("share", "seconds", "fits"), [(0.9, 0, False), (0.4, 0, True), (0.4, 0.5, False)]
)
def test_a_remedy_keeps_the_limits_of_run_toml(share: float, seconds: float, fits: bool) -> None:
    limits = ("preflight.hbm_share=0.5", f"preflight.step_seconds={seconds}")
    config = load_with("train.batch_size=64", *limits)
    seen = figures(limit=1.0, memory={"temporary": share})
    found = remedies(config, Figures(1.0, needed=5.0), lambda one: seen, print)
    assert found and all(one.fits is fits for one in found)


def test_topologies_that_cannot_be_enough_are_not_tried() -> None:
    config = load_with("train.batch_size=256")
    tried: list[str] = []

    def judge(one: Config) -> Figures:
        tried.append(one.hardware.topology)
        return figures()

    remedies(config, Figures(1.0, needed=9.0), judge, print)
    assert [one for one in tried if one != "2x2"] == ["8x8"]


def test_a_step_just_above_a_limit_is_told_in_figures_that_differ() -> None:
    near = figures(memory={"temporary": 0.4003 * figures().limit})
    failure = exceeded(verdict(load_with("preflight.hbm_share=0.4"), near, 257, None))
    assert failure and "40.03%" in failure.what and "40%" in failure.what


def test_both_limits_are_told_at_once() -> None:
    limits = ("preflight.hbm_share=0.4", "preflight.step_seconds=0.5")
    failure = exceeded(verdict(load_with(*limits), figures(), 257, None))
    assert failure and "HBM" in failure.what and "0.5 s" in failure.what
    assert "preflight.hbm_share; preflight.step_seconds" in failure.where


def test_no_advice_to_set_what_is_set() -> None:
    limits = ("preflight.hbm_share=0.4", "train.activation_checkpointing=true")
    failure = exceeded(verdict(load_with(*limits), figures(), 257, None))
    assert failure and "checkpointing" not in failure.remedy


@pytest.mark.parametrize(
    ("figure", "parts", "word"),
    [
        ("flops", 1, "topology"),
        ("hbm_bytes", 1, "topology"),
        ("ici", 2, "train.accumulation"),
        ("ici", 1, "generation"),
    ],
)
def test_what_shortens_a_step_depends_on_what_bounds_it(figure: str, parts: int, word: str) -> None:
    numbers = {"flops": 0.0, "hbm_bytes": 0.0} | ({figure: 1e18} if figure != "ici" else {})
    slow = figures(**numbers, collectives={"all-gather": (1.0, 1e15)} if figure == "ici" else {})
    own = ("preflight.step_seconds=0.5", f"train.accumulation={parts}")
    failure = exceeded(verdict(load_with(*own), slow, 257, None))
    assert failure and word in failure.remedy


def result(*found: Figures) -> dict[str, object]:
    slices = [verdict(load_with(), one, 257, Price("on-demand", 1.2, True)) for one in found]
    return {
        "model": "tiny",
        "sequence_length": 8,
        "accumulation": 2,
        "vocabulary": 257,
        "limits": {"hbm_share": 0.9, "step_seconds": 0.0},
        "parameters": slices[0].parameters,
        "tokens_per_step": 16,
        "prices_checked": "2025-11-01",
        "slices": [as_dict(one) for one in slices],
        "remedies": [asdict(Remedy(("train.accumulation=2",), True, 0.5, extrapolated=False))],
    }


def test_the_table_says_what_is_a_bound_and_what_was_extrapolated() -> None:
    shown = result(figures(depths=(2, 4)), Figures(16.0 * GIB, needed=20.0 * GIB))
    for text in (preflight_texts.text(shown), preflight_texts.markdown(shown)):
        for part in ("at least", "at most", "~ extrapolated from 2 and 4", "NO", "by compute"):
            assert part in text
        assert "enough: train.accumulation=2, with 50.0% of HBM" in text
        assert "a vocabulary of 257, 2 sequences of 8 tokens a step in 2 parts" in text
        assert "~8.00 GiB of 16.00 GiB" in text and "~20" not in text


def test_a_slice_above_a_limit_is_no_plain_yes() -> None:
    own = load_with("preflight.hbm_share=0.4")
    shown = as_dict(verdict(own, figures(), 257, None))
    assert shown["fits"] and not shown["within_limits"]
    assert preflight_texts.fits(shown) == "above the limit"


def test_the_picture_holds_every_slice(tmp_path: Path) -> None:
    shown = result(figures(), Figures(16.0 * GIB, needed=20.0 * GIB))
    preflight_picture.draw(shown, tmp_path / "slices.png")
    assert (tmp_path / "slices.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(Refused, match="--picture"):
        preflight_picture.draw(shown, tmp_path / "no" / "slices.png")


def test_without_torch_xla_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_installed", lambda package: False)
    with pytest.raises(NotFound, match="torch_xla|TorchTPU"):
        faults.available()


def test_a_chip_that_the_compiler_sees_otherwise_is_refused() -> None:
    with pytest.raises(InputError, match="v4"):
        faults.check(settings("v4", "2x2x1"))
