"""No part of CUDA in what the image demands."""

from __future__ import annotations

from pathlib import Path

import pytest

from .resolving import CUDA, resolved


def test_the_cpu_build_resolves_without_cuda(project: Path) -> None:
    found = resolved(project, "cpu")
    if found is None:
        pytest.skip("PyTorch's CPU index cannot be reached here")
    assert found["torch"]
    assert [name for name in found if CUDA.match(name)] == []


def test_nothing_but_torch_demands_cuda(project: Path) -> None:
    """Whichever build is taken: what leaves CUDA out is the choice of torch's build alone."""
    found = resolved(project, "")
    if found is None:
        pytest.skip("the package registry cannot be reached here")
    asking = {asker for name, askers in found.items() if CUDA.match(name) for asker in askers}
    assert {name for name in asking if not CUDA.match(name)} == {"torch"}
