"""The look-up with a gradient that the devices scatter themselves, on virtual ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.nn import functional as F
from << cookiecutter.package >>.accelerator._lookup import Layout, look_up

xr.use_spmd()
fsdp, cut = int(sys.argv[1]), int(sys.argv[2])
mesh = xs.Mesh(np.arange(4), (4 // fsdp, fsdp), ("data", "fsdp"))
torch.manual_seed(0)
table, tokens, above = torch.randn(8, 12), torch.randint(8, (16, 5)), torch.randn(16, 5, 12)


def run(rows, of, gradient, look):
    rows = rows.requires_grad_()
    found = look(rows, of)
    found.backward(gradient)
    torch_xla.sync()
    return found.detach().cpu(), rows.grad.cpu()


def scattered(rows, of):
    spec = tuple("fsdp" if i == cut else None for i in range(2))
    xs.mark_sharding(rows, mesh, spec)
    xs.mark_sharding(of, mesh, (("data", "fsdp"), None))
    return look_up(rows, of, Layout(mesh, spec), torch.float32)


expected = run(table.clone(), tokens, above, lambda rows, of: F.embedding(of, rows))
made = run(table.to("xla"), tokens.to("xla"), above.to("xla"), scattered)
for one, other in zip(made, expected, strict=True):
    torch.testing.assert_close(one, other)
print("equal")
"""


@pytest.mark.parametrize("fsdp", [2, 4])
@pytest.mark.parametrize("cut", [0, 1])
def test_values_and_gradient_are_those_of_a_plain_look_up(fsdp: int, cut: int) -> None:
    """`fsdp` of four devices hold a table together, cut along this dimension."""
    words = [sys.executable, "-c", SCRIPT, str(fsdp), str(cut)]
    variables = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4", "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment = {**os.environ, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
