"""Random graphs for tests: pointwise ops, reductions broadcast back, all four views, shared values, several outputs."""

from __future__ import annotations

import random
from math import prod

import torch

from minicompile.ir.graph import Graph, Node

from .build import B

UNARY = ("neg", "abs", "relu", "tanh", "sigmoid", "sin")
BINARY = ("add", "sub", "mul", "maximum")
KINDS = ("unary", "binary", "binary", "scalar", "normalise", "reduce", "permute", "reshape", "slice", "mask")
SHAPES = ((4, 6), (6, 4), (2, 3, 4), (24,), (3, 8), (4, 3, 2), (2, 2, 6))


def random_graph(seed: int, nodes: int = 12) -> tuple[Graph, list[torch.Tensor]]:
    """A graph of about `nodes` steps, and inputs for it."""
    rng = random.Random(seed)
    b = B(f"random_{seed}")
    inputs = []
    for _ in range(rng.randint(1, 3)):
        tensor = torch.randn(rng.choice(SHAPES), generator=torch.Generator().manual_seed(rng.randint(0, 1 << 30)))
        inputs.append(tensor.transpose(0, -1) if rng.random() < 0.3 else tensor)
    pool = [b.input_like(tensor) for tensor in inputs]
    for _ in range(nodes):
        pool.append(_step(rng, b, pool))
    chosen = rng.sample(pool[len(inputs) :], rng.randint(1, 4))
    return b.finish(*chosen), inputs


def _step(rng: random.Random, b: B, pool: list[Node]) -> Node:
    x = rng.choice(pool[-6:])
    kind = rng.choice(KINDS)
    shape = x.tensor.shape
    if kind == "binary":
        same = [y for y in pool if y.tensor.shape == shape]
        return getattr(b, rng.choice(BINARY))(x, rng.choice(same))
    if kind == "scalar":
        return b.mul(x, round(rng.uniform(-2, 2), 2))
    if kind == "normalise" and shape:
        dims = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        reduced = b.sum(x, *dims) if rng.random() < 0.5 else b.amax(x, *dims)
        return b.sub(x, b.mul(b.expand(reduced, *shape), 1.0 / prod(shape)))
    if kind == "reduce" and shape:
        reduced = b.sum(b.mul(x, 0.1), rng.randrange(len(shape)))
        return b.expand(reduced, *shape) if rng.random() < 0.5 else reduced
    if kind == "permute":
        return b.permute(x, *rng.sample(range(len(shape)), len(shape)))
    if kind == "reshape":
        fitting = [s for s in SHAPES if prod(s) == prod(shape)]
        return b.reshape(x, *rng.choice(fitting)) if fitting else b.neg(x)
    if kind == "slice" and shape[0] > 1:
        return b.slice(x, 0, 1, shape[0] - 1)
    if kind == "mask":
        return b.where(b.lt(b.iota(len(shape) - 1, *shape), shape[-1] // 2), x, 0.5)
    return getattr(b, rng.choice(UNARY))(x)
