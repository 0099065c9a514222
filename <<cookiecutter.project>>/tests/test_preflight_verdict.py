"""What is said of the figures: limits, remedies, tables, the picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from preflight_fixtures import GIB, figures, load_with

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import InputError, Refused
from << cookiecutter.package >>.ops import preflight_picture, preflight_texts
from << cookiecutter.package >>.preflight.figures import Figures
from << cookiecutter.package >>.preflight.remedies import Remedy, remedies
from << cookiecutter.package >>.preflight.verdict import Price, as_dict, exceeded, too_large, verdict


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
