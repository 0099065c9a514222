"""Attention in blocks, against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from << cookiecutter.package >>.accelerator import _attention
from << cookiecutter.package >>.model import attend

LENGTH = 13


@pytest.fixture
def inputs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn((2, heads, LENGTH, 8), generator=generator).requires_grad_()
        for heads in (4, 2, 2)
    ]


@pytest.mark.parametrize("block", [1, 5, LENGTH, 64])
def test_blocks_give_the_values_and_gradients_of_the_whole(
    inputs: list[Tensor], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_attention, "BLOCK", block)
    made, whole = _attention.attend(*inputs), attend(*inputs)
    torch.testing.assert_close(made, whole)
    weights = torch.linspace(-1, 1, made.numel()).view_as(made)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), inputs) for y in (made, whole))
    torch.testing.assert_close(ours, theirs)


def test_gradients_have_the_type_of_their_inputs(inputs: list[Tensor]) -> None:
    short = [tensor.detach().bfloat16().requires_grad_() for tensor in inputs]
    found = torch.autograd.grad(_attention.attend(*short).float().sum(), short)
    assert {tensor.dtype for tensor in found} == {torch.bfloat16}
