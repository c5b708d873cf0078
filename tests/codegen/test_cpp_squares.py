"""Sums of squares about a mean need no pass of their own, and are as exact as with one."""

import pytest
import torch
from torch.nn import functional as F

import minicompile

SIZES = (3, 32, 100, 256, 700, 4096)


def normalised(x):
    return F.layer_norm(x, (x.shape[-1],))


def variance(x):
    return x.var(-1)


def about_half_the_mean(x):
    return (x - x.sum(-1, keepdim=True) / (2 * x.shape[-1])).square().sum(-1)


def two_at_once(x):
    halves = x.unflatten(0, (2, -1))
    return F.layer_norm(halves + halves.shape[0], (x.shape[-1],)), halves.var(-1)


FUNCTIONS = (normalised, variance, about_half_the_mean, two_at_once)


def rows(size, mean, deviation, number=100):
    return torch.randn(number, size, generator=torch.Generator().manual_seed(size)) * deviation + mean


def worst(results, exact):
    """The largest error of a result, as a part of its largest element."""
    results, exact = ([r] if isinstance(r, torch.Tensor) else r for r in (results, exact))
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(results, exact, strict=True))


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("mean, deviation", [(0, 1), (1, 1), (1.1, 1), (-3, 1), (1000, 1), (1e-3, 1e-5), (0, 1e4)])
def test_results_are_as_exact_as_eager_s(fn, mean, deviation):
    compiled = minicompile.compile(fn, fullgraph=True, dynamic=False)
    for size in SIZES[1:]:  # of three elements, some row is all but constant
        x = rows(size, mean, deviation)
        exact = fn(x.double())
        assert worst(compiled(x), exact) <= 2 * worst(fn(x), exact) + torch.finfo(torch.float32).eps


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_need_the_pass_stand_among_others(size):
    compiled = minicompile.compile(variance, fullgraph=True)
    x = rows(size, 0, 1, 8)
    x[1] += 1e4
    x[2] = 7.5
    x[3] = 3e19
    x[4] *= 1e-24
    x[5, 0] = float("inf")
    x[6, -1] = float("nan")
    expected = variance(x.double()).float()
    torch.testing.assert_close(compiled(x), expected, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype):
    compiled = minicompile.compile(normalised, fullgraph=True)
    for size in SIZES:
        x = rows(size, 0.5, 1).to(dtype)
        torch.testing.assert_close(compiled(x), normalised(x.double()).to(dtype))


@pytest.mark.parametrize("size, is_left_out", [(64, True), (256, False), (1024, True)])
def test_the_pass_is_left_out_where_that_pays(size, is_left_out):
    compiled = minicompile.compile(normalised)
    compiled(rows(size, 0, 1))
    text = compiled.entries[0].graphs[0].compiled.native_source
    assert ("run_squares" in text) is ("__builtin_expect(!(4 * moved_" in text) is is_left_out
