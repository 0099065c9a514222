"""Pre-flight without the compiler: figures, the line through two depths, the bound, the slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from ops_fixtures import settings
from preflight_fixtures import GIB, figures, load_with

from << cookiecutter.package >>.config import Config
from << cookiecutter.package >>.errors import InputError, NotFound
from << cookiecutter.package >>.preflight import faults, study, topology
from << cookiecutter.package >>.preflight.bound import bound, usd_per_billion_tokens
from << cookiecutter.package >>.preflight.figures import Figures, line, refusal
from << cookiecutter.package >>.preflight.program import BETWEEN
from << cookiecutter.package >>.slices import find

MESSAGE = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries (24.50G) exceeds available HBM (15.75G). HLO module: step."
)


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


def test_without_torch_xla_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_installed", lambda package: False)
    with pytest.raises(NotFound, match="torch_xla|TorchTPU"):
        faults.available()


def test_a_chip_that_the_compiler_sees_otherwise_is_refused() -> None:
    with pytest.raises(InputError, match="v4"):
        faults.check(settings("v4", "2x2x1"))
