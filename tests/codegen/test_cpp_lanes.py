"""Reductions by lanes: right at every length around a run's and a lane's, with NaN, and no less exact than eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minicompile

LENGTHS = [576, 577, 513, 575, 1024, 1087, 16384 * 4 + 65, 128, 192, 193, 255, 3]

REDUCTIONS: list[Callable[[Tensor], object]] = [
    lambda x: x.sum(-1), lambda x: (x * x).sum(-1), lambda x: x.prod(-1), lambda x: (x.amax(-1), x.amin(-1)),
    lambda x: (x > 0).any(-1), lambda x: (x > -9).all(-1), lambda x: x.var(-1), lambda x: (x.sum(-1), (x - 1).amax(-1)),
    lambda x: x.sum(), lambda x: x - x.mean(-1, keepdim=True), lambda x: x[:, 1:].sum(-1),
    lambda x: x.flip(-1).amax(-1),
]  # fmt: skip


def _data(length: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(length)
    x = torch.randn(3, length, dtype=torch.float64)
    return (x * 3).to(dtype) if dtype.is_floating_point else (x * 3).round().to(dtype)


@pytest.mark.parametrize("fn", REDUCTIONS)
def test_every_length(fn: Callable[[Tensor], object]) -> None:
    """The first call is compiled for its length alone, the second for all."""
    compiled = minicompile.compile(fn)
    for length in LENGTHS:
        x = _data(length, torch.float32)
        torch.testing.assert_close(compiled(x), fn(x), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("length", [600, 767, 768, 769, 1023])
def test_a_short_row_is_one_run(length: int) -> None:
    x = _data(length, torch.float32)
    compiled = minicompile.compile(lambda x: (x.sum(-1), x.amax(-1)), dynamic=False)
    torch.testing.assert_close(compiled(x), (x.sum(-1), x.amax(-1)))
    (kernel,) = compiled.entries[0].graphs[0].compiled.kernels
    assert ("begin += " in kernel.source) == (length > 768)


@pytest.mark.parametrize(("length", "expected"), [(64, False), (128, True), (144, False), (192, True), (200, True)])
def test_which_short_rows_have_lanes(length: int, expected: bool) -> None:
    x = _data(length, torch.float32)
    compiled = minicompile.compile(lambda x: (x.sum(-1), x.amax(-1)), dynamic=False)
    torch.testing.assert_close(compiled(x), (x.sum(-1), x.amax(-1)))
    (kernel,) = compiled.entries[0].graphs[0].compiled.kernels
    assert ("int64_t lane = 0" in kernel.source) == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("fn", [lambda x: x.sum(-1), lambda x: (x.amax(-1), x.amin(-1)), lambda x: (x + x).sum(-1)])
def test_every_dtype(fn: Callable[[Tensor], object], dtype: torch.dtype) -> None:
    x = _data(1087, dtype)
    torch.testing.assert_close(minicompile.compile(fn)(x), fn(x))


@pytest.mark.parametrize("place", [0, 63, 64, 600, 1085, 1086])
def test_nan_wins_wherever_it_lies(place: int) -> None:
    x = torch.randn(2, 1087)
    x[0, place] = float("nan")
    got = minicompile.compile(lambda x: (x.amax(-1), x.amin(-1), x.sum(-1)))(x)
    assert all(bool(part[0].isnan()) and not bool(part[1].isnan()) for part in got)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [50, 577])
def test_nan_behind_a_mask(length: int, dtype: torch.dtype) -> None:
    """One that is masked away does not count, one that is not does."""
    x, mask = torch.randn(3, length).to(dtype), torch.zeros(3, length, dtype=torch.bool)
    x[0, 7] = x[1, length - 1] = float("nan")
    mask[0, 7] = mask[2, 5] = True
    fn = lambda x, mask: (x.masked_fill(mask, -9).amax(-1), torch.where(mask, 9, x).amin(-1))  # noqa: E731
    got, want = minicompile.compile(fn)(x, mask), fn(x, mask)
    torch.testing.assert_close(got, want, equal_nan=True)
    assert [part.isnan().tolist() for part in got] == [[False, True, False]] * 2


@pytest.mark.parametrize("length", [577, 4096, 100_000])
@pytest.mark.parametrize("fn", [lambda x: x.sum(-1), lambda x: (x * x).sum(-1), lambda x: x.mean(-1)])
def test_errors_stay_near_eagers(fn: Callable[[Tensor], Tensor], length: int) -> None:
    torch.manual_seed(1)
    x = torch.rand(256, length)
    exact = fn(x.double())
    mine, eager = ((y.double() - exact).abs().mean() for y in (minicompile.compile(fn)(x), fn(x)))
    assert mine <= 1.25 * eager
