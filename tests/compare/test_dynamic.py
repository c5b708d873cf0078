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
