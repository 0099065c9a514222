from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from << cookiecutter.package >>.model import Transformer, initial
from << cookiecutter.package >>.shapes import PRESETS, Shape

SMALL = Shape(layers=2, width=32, heads=4, kv_heads=2, hidden=48, tied=False, vocabulary=200)


def real(shape: Shape, seed: int = 0) -> Transformer:
    """A model on the CPU with its initial weights."""
    model = Transformer(shape, torch.float32)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(initial(name, tuple(parameter.shape), shape.layers, seed))
    return model


@pytest.mark.parametrize("preset", PRESETS)
def test_the_parameter_count_is_that_of_the_model(preset: str) -> None:
    shape = replace(PRESETS[preset], vocabulary=32_000)
    model = Transformer(shape, torch.bfloat16)
    assert sum(p.numel() for p in model.parameters()) == shape.parameters


@pytest.mark.parametrize(("preset", "billions"), [("125m", 0.12), ("1b", 1.2), ("8b", 8.0)])
def test_a_preset_is_as_large_as_its_name(preset: str, billions: float) -> None:
    shape = replace(PRESETS[preset], vocabulary=128_256 if preset != "125m" else 50_257)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.1)


@pytest.mark.parametrize("tied", [True, False])
def test_flops_per_token_are_those_that_pytorch_counts(tied: bool) -> None:
    shape, length = replace(SMALL, tied=tied), 24
    model = real(shape)
    tokens = torch.randint(0, shape.vocabulary, (2, length + 1))
    # PyTorch's counter does not know the CPU's fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(tokens).backward()
    assert counter.get_total_flops() / (2 * length) == shape.flops_per_token(length)


def test_a_token_sees_none_after_it() -> None:
    model = real(SMALL)
    tokens = torch.randint(0, 200, (1, 12))
    changed = tokens.clone()
    changed[0, 7:] = (changed[0, 7:] + 1) % 200
    before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[0, :7], after[0, :7])
    assert not torch.equal(before[0, 7:], after[0, 7:])


def test_grouped_heads_are_full_heads_with_shared_keys() -> None:
    grouped = real(SMALL)
    full = real(replace(SMALL, kv_heads=4))
    weights = grouped.state_dict()
    for name in [name for name in weights if name.endswith(("key.weight", "value.weight"))]:
        heads = weights[name].view(2, 8, 32)
        weights[name] = heads.repeat_interleave(2, dim=0).reshape(32, 32)
    full.load_state_dict(weights)
    tokens = torch.randint(0, 200, (2, 9))
    torch.testing.assert_close(grouped.logits(tokens), full.logits(tokens))


def test_the_position_of_a_token_counts() -> None:
    model = real(SMALL)
    one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[2, 1, 3]])
    assert not torch.allclose(model.logits(one)[0, -1], model.logits(other)[0, -1])


def test_recomputing_activations_changes_nothing() -> None:
    tokens = torch.randint(0, 200, (2, 17))
    plain, recomputed = real(SMALL), real(SMALL)
    recomputed.checkpoint = lambda block, *x: checkpoint(block, *x, use_reentrant=False)
    plain(tokens).backward()
    recomputed(tokens).backward()
    for one, other in zip(plain.parameters(), recomputed.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)


def test_the_first_loss_is_that_of_a_guess() -> None:
    model = real(SMALL)
    loss = model(torch.randint(0, 200, (8, 65)))
    assert loss.item() == pytest.approx(math.log(SMALL.padded_vocabulary), rel=0.05)


def test_initial_weights_depend_on_seed_and_name_alone() -> None:
    one = initial("blocks.0.attention.query.weight", (8, 8), 2, seed=1)
    torch.rand(3)
    assert torch.equal(one, initial("blocks.0.attention.query.weight", (8, 8), 2, seed=1))
    assert not torch.equal(one, initial("blocks.1.attention.query.weight", (8, 8), 2, seed=1))
    assert not torch.equal(one, initial("blocks.0.attention.query.weight", (8, 8), 2, seed=2))
