"""The training step in plain JAX, compiled for a slice: what torch_xla's is held against.

    python step.py FOLDER

FOLDER/request.json names the shape, the batch and the slice; FOLDER/reference.json and
FOLDER/program are what the compiler made of it. It imports jax and nothing of the project.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.update(
    TPU_SKIP_MDS_QUERY="1",
    TPU_LOG_DIR="disabled",
    JAX_PLATFORMS="cpu",
    XLA_FLAGS=f"--xla_dump_to={sys.argv[1]}/program --xla_dump_hlo_as_text",
)

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ROPE_BASE, EPSILON = 500_000.0, 1e-5
BETAS, DECAY, CLIP, RATE = (0.9, 0.95), 0.1, 1.0, 3e-4
BATCH = ("data", "fsdp")

Tree = Any


def shapes(model: dict[str, Any]) -> Tree:
    """Parameter name -> shape; matrices as [inputs, outputs], the layers one by one."""
    width, hidden, size = model["width"], model["hidden"], model["head_size"]
    block = {
        "attention_norm": (width,),
        "query": (width, model["heads"], size),
        "key": (width, model["kv_heads"], size),
        "value": (width, model["kv_heads"], size),
        "output": (model["heads"] * size, width),
        "feed_forward_norm": (width,),
        "gate": (width, hidden),
        "up": (width, hidden),
        "down": (hidden, width),
    }
    whole: dict[str, Tree] = {
        "embedding": (model["vocabulary"], width),
        "blocks": [dict(block) for _ in range(model["layers"])],
        "norm": (width,),
    }
    return whole if model["tied"] else whole | {"head": (width, model["vocabulary"])}


def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + EPSILON)
    return (y * weight).astype(x.dtype)


def rotate(x: jax.Array) -> jax.Array:
    """[batch, length, heads, size]: each pair (i, i + size / 2) by its position's angle."""
    length, size = x.shape[1], x.shape[3]
    speed = 1.0 / ROPE_BASE ** (jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    angles = (jnp.arange(length, dtype=jnp.float32)[:, None] * speed)[:, None, :]
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate((a * cos - b * sin, b * cos + a * sin), -1).astype(x.dtype)


def attention(x: jax.Array, p: Tree) -> jax.Array:
    names = ("query", "key", "value")
    query, key, value = (jnp.einsum("bld,dhs->blhs", x, p[name].astype(x.dtype)) for name in names)
    y = jax.nn.dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
    return y.reshape(*x.shape[:2], -1) @ p["output"].astype(x.dtype)


def block(x: jax.Array, p: Tree) -> jax.Array:
    x = x + attention(norm(x, p["attention_norm"]), p)
    y = norm(x, p["feed_forward_norm"])
    gate, up, down = (p[name].astype(x.dtype) for name in ("gate", "up", "down"))
    return x + (jax.nn.silu(y @ gate) * (y @ up)) @ down


def loss_of(parameters: Tree, tokens: jax.Array, model: dict[str, Any], place: Any) -> jax.Array:
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    layer = jax.checkpoint(block) if model["activation_checkpointing"] else block
    dtype = jnp.dtype(model["compute_dtype"])
    x = place(jnp.take(parameters["embedding"], inputs, axis=0).astype(dtype))
    for p in parameters["blocks"]:
        x = place(layer(x, p))
    head = parameters["embedding"].T if model["tied"] else parameters["head"]
    logits = (norm(x, parameters["norm"]) @ head.astype(dtype)).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def updated(state: Tree, gradients: Tree, count: jax.Array) -> Tree:
    """AdamW; `state` is (parameter, first moment, second moment) in each leaf's place."""
    total = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1.0, CLIP / (total + 1e-6))

    def leaf(p: jax.Array, m: jax.Array, v: jax.Array, g: jax.Array) -> tuple[jax.Array, ...]:
        g = g * scale
        m, v = BETAS[0] * m + (1 - BETAS[0]) * g, BETAS[1] * v + (1 - BETAS[1]) * g * g
        first, second = m / (1 - BETAS[0] ** count), v / (1 - BETAS[1] ** count)
        decay = DECAY if p.ndim > 1 else 0.0
        return p - RATE * (first / (jnp.sqrt(second) + 1e-8) + decay * p), m, v

    found = jax.tree.map(leaf, *state, gradients)
    return jax.tree.transpose(jax.tree.structure(gradients), jax.tree.structure((0, 0, 0)), found)


def mesh_of(request: dict[str, Any]) -> Mesh:
    options = {key: tuple(value) for key, value in request["options"].items()}
    devices = topologies.get_topology_desc(request["topology"], "tpu", **options).devices
    ordered = sorted(devices, key=lambda device: device.id)
    return Mesh(np.array(ordered).reshape(-1, request["fsdp"]), BATCH)


def cut(shape: tuple[int, ...], devices: int) -> PartitionSpec:
    """Over the first dimension that divides, or none."""
    for place, size in enumerate(shape):
        if size % devices == 0:
            return PartitionSpec(*(None,) * place, "fsdp")
    return PartitionSpec()


def compiled(request: dict[str, Any]) -> Any:
    model, mesh = request["model"], mesh_of(request)
    rows = NamedSharding(mesh, PartitionSpec(BATCH, None, None))

    def place(x: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(x, rows)

    def step(state: Tree, count: jax.Array, tokens: jax.Array) -> tuple[Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(state[0], tokens, model, place)
        return updated(state, gradients, count), loss

    def tensor(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        sharding = NamedSharding(mesh, cut(shape, request["fsdp"]))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    one = jax.tree.map(tensor, shapes(model), is_leaf=lambda x: isinstance(x, tuple))
    spread = NamedSharding(mesh, PartitionSpec(BATCH, None))
    tokens = jax.ShapeDtypeStruct(tuple(request["tokens"]), jnp.int32, sharding=spread)
    count = jax.ShapeDtypeStruct((), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec()))
    kept = jax.tree.map(lambda leaf: leaf.sharding, (one, one, one))
    out = (kept, NamedSharding(mesh, PartitionSpec()))
    jitted = jax.jit(step, donate_argnums=0, out_shardings=out)
    return jitted.lower((one, one, one), count, tokens).compile()


def main() -> None:
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text("utf-8"))
    began = time.perf_counter()
    try:
        done = compiled(request)
    except jax.errors.JaxRuntimeError as error:
        found: dict[str, Any] = {"refused": str(error)}
    else:
        stats = done.memory_analysis()
        found = {
            "seconds": time.perf_counter() - began,
            "argument_bytes": stats.argument_size_in_bytes,
            "output_bytes": stats.output_size_in_bytes - stats.alias_size_in_bytes,
            "temporary_bytes": stats.temp_size_in_bytes,
            "code_bytes": stats.generated_code_size_in_bytes,
        }
    (folder / "reference.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
