"""dynamic=True: one compilation for several batch sizes, sizes being arguments of the kernels."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import minicompile
from minicompile.examples.programs import PROGRAMS
from tests.support import assert_same

BATCHES = (2, 3, 5, 8)


@pytest.mark.parametrize("name", ["InformationScorer", "QueryContentScorer", "SalienceScorer"])
def test_scorers_compile_once_for_four_batch_sizes(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    compiled = minicompile.compile(fn, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for batch in BATCHES:
            inputs = tuple(arg[:batch] for arg in args)
            assert_same(compiled(*inputs), fn(*inputs))
    assert minicompile.stats()["graphs"] == 1
    assert len(compiled.entries) == 1


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y) * 2 + torch.sigmoid(x)


def row_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    return mean, ((x - mean) ** 2).sum(-1) / x.shape[-1]


@pytest.mark.parametrize("fn", [pointwise, row_statistics])
def test_both_sizes_vary(fn) -> None:
    compiled = minicompile.compile(fn, dynamic=True, fullgraph=True)
    for rows, columns in ((4, 16), (5, 33), (128, 7), (2, 1000)):
        args = tuple(torch.randn(rows, columns) for _ in range(fn.__code__.co_argcount))
        assert_same(compiled(*args), fn(*args))
    assert minicompile.stats()["graphs"] == 1


def test_sizes_zero_and_one_are_specialised() -> None:
    compiled = minicompile.compile(pointwise, dynamic=True)
    for rows in (4, 1, 0, 9):
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        assert_same(compiled(x, y), pointwise(x, y))


FRACTIONS = {
    "upsample": lambda x: F.interpolate(F.max_pool2d(x[None, None], 2), scale_factor=2.0)[0, 0],
    "upsample once": lambda x: F.interpolate(x[None, None], scale_factor=2.0)[0, 0],
    "bilinear": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear")[0, 0],
    "batch norm in training": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), training=True),
    "running variance": lambda x: _running_variance(x),
    "variance": lambda x: x.var(0) + x.std(),
    "ratio of sizes": lambda x: x * (x.shape[0] / x.shape[1]) + 1 / x.shape[0],
    "root of a size": lambda x: x / math.sqrt(x.shape[1]) + x.shape[0] ** 0.5,
}


def test_groups_of_a_varying_number_of_channels() -> None:
    def function(x: Tensor) -> Tensor:
        return F.group_norm(x, 2)

    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    with minicompile.config.patch(strict=True):
        for shape in ((2, 8, 5), (3, 6, 4)):
            x = torch.randn(shape)
            assert_same(compiled(x), function(x))


def _running_variance(x: Tensor) -> Tensor:
    variance = torch.ones(x.shape[1])
    F.batch_norm(x, torch.zeros(x.shape[1]), variance, training=True)
    return variance


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_of_sizes_are_not_truncated(name: str) -> None:
    fn = FRACTIONS[name]
    compiled = minicompile.compile(fn, dynamic=True)
    for rows, columns in ((8, 6), (10, 8), (6, 6)):
        x = torch.arange(float(rows * columns)).reshape(rows, columns) % 7
        assert_same(compiled(x), fn(x))


RESHAPED = {
    "behind a slice": (lambda x: x[1:].reshape(-1, x.shape[0] - 1) + 1, lambda n: (n, 6)),
    "a column": (lambda x: x[:, 1].reshape(-1, 2) * 2, lambda n: (2 * n, 6)),
    "rows of the middle": (lambda x: x[2:4].reshape(x.shape[1], -1) * 2, lambda n: (6, n)),
    "a part of the flat one": (lambda x: x.view(-1)[x.shape[0] :].reshape(-1, x.shape[0]) * 2, lambda n: (n, 5)),
    "backwards": (lambda x: x.flip(0).flip(1).reshape(x.shape[1], x.shape[0]) * 2, lambda n: (2 * n, 3)),
    "one row again and again": (lambda x: x[1].expand(x.shape[0], -1).reshape(2, -1) * 2, lambda n: (2 * n, 4)),
    "a product": (lambda x: x[1:].reshape(x.shape[1], -1) @ x[:-1].reshape(-1, x.shape[1]), lambda n: (n, 6)),
    "twice as many rows": (lambda x: (x + 1).view(x.shape[0] * 2, -1) * 2, lambda n: (n, 8)),
    "half as many": (lambda x: (x + 1).t().reshape(x.shape[0] // 2, -1).softmax(-1), lambda n: (2 * n, 6)),
    "sizes exchanged": (lambda x: x.relu().reshape(x.shape[1], x.shape[0]) + x.sin().t(), lambda n: (n, n + 1)),
    "joined": (lambda x: torch.cat([x[1:].reshape(6, -1), x.reshape(6, -1)], 1), lambda n: (n, 6)),
    "a running sum": (lambda x: x[1:].reshape(x.shape[1], -1).cumsum(1), lambda n: (n, 6)),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", RESHAPED)
def test_reshapes_whose_sizes_are_computed(name: str, dynamic: bool | None) -> None:
    """Through both doors: each passes sizes in a way of its own."""
    fn, shape = RESHAPED[name]
    torch._dynamo.reset()
    doors = (
        minicompile.compile(fn, dynamic=dynamic, fullgraph=True),
        torch.compile(fn, dynamic=dynamic, fullgraph=True, backend="minicompile"),
    )
    with minicompile.config.patch(strict=True), torch.no_grad():
        for n in (4, 6, 10, 8):
            x = torch.randn(shape(n))
            for compiled in doors:
                assert_same(compiled(x), fn(x))
