"""Scans of several rows side by side, and means that are rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.codegen import cpp_scans

from ..support import assert_same

SCANS: list[Callable[[Tensor], object]] = [
    lambda x: x.cumsum(-1), lambda x: x.cumprod(-1), lambda x: (x * 2).cumsum(-1) + x, lambda x: x.cumsum(0),
    lambda x: (x.cumsum(-1), x.sin()), lambda x: torch.softmax(x, -1).cumsum(-1), lambda x: x.T.cumsum(-1),
]  # fmt: skip


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 43])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.bfloat16])
def test_side_by_side_is_one_by_one(rows: int, dtype: torch.dtype) -> None:
    """Running sums keep eager's order, and so its bits."""
    x = (torch.randn(3, rows, 700) * 8).to(dtype)
    for fn in (lambda x: x.cumsum(-1), lambda x: x.cumsum(1), lambda x: (x + 1).cumsum(-1)):
        got = minicompile.compile(fn)(x)
        if dtype == torch.bfloat16:  # what is fused before a scan is not rounded before it
            torch.testing.assert_close(got, fn(x.float()).bfloat16())
        else:
            assert torch.equal(got, fn(x))


TILED: list[Callable[[Tensor], object]] = [
    lambda x: x.cumsum(-1), lambda x: (x.cumprod(-1), x * 2), lambda x: (x * 3).cumsum(-1).double(),
    lambda x: (x * x[:1]).cumsum(-1), lambda x: x.cumsum(-1) + x.flip(-1), lambda x: x.float().cumsum(-1),
    lambda x: torch.cat([x, x], 1).cumsum(1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("fn", TILED)
def test_rows_that_share_the_sets_of_a_cache(fn: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    """Tiles end where rows do; where anything lies otherwise, there are none."""
    for length, dynamic in ((1024, False), (700, True)):
        x = (torch.randn(43, 2048) / 8).to(dtype)[:, :length]
        assert_same(minicompile.compile(fn, dynamic=dynamic)(x), fn(x))


@pytest.mark.parametrize("simd, length, tiled", [("avx2", 1024, True), ("avx2", 1000, False), ("avx512", 1024, False)])
def test_tiles_are_for_such_rows(simd: str, length: int, tiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_scans, "simd_name", lambda: simd)
    compiled, x = minicompile.compile(lambda x: x.cumsum(-1)), torch.randn(64, length)
    with minicompile.config.patch(entry_cache=False):
        assert torch.equal(compiled(x), x.cumsum(-1))
    assert ("mc_transpose" in compiled.entries[0].graphs[0].compiled.native_source) == tiled


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_half_types_are_carried_in_float32(name: str, dtype: torch.dtype, rows: int) -> None:
    """Found by the fuzzer: what overflows there is infinite from then on, and infinity times zero is NaN."""
    huge = torch.tensor([2.0**63, -(2.0**63), 2.0**63, -(2.0**63), 0.0, 1.0] + [1.5] * 20)
    x = torch.stack([huge, torch.linspace(-2, 2, 26)]).repeat(rows, 1).to(dtype)
    for dim in (-1, 0):
        got, wanted = minicompile.compile(lambda x, dim=dim: getattr(x, name)(dim))(x), getattr(x, name)(dim)
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("fn", SCANS)
def test_scans_of_many_rows(fn: Callable[[Tensor], object]) -> None:
    x = torch.rand(61, 300)
    torch.testing.assert_close(minicompile.compile(fn, dynamic=True)(x), fn(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fn", [
    lambda x: x.var(1), lambda x: x.var(0), lambda x: x.std(1), lambda x: x.mean(1), lambda x: x.mean(0),
    lambda x: torch.var_mean(x, 1)[0],
])  # fmt: skip
def test_errors_of_moments_stay_near_eagers(fn: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 777) + 10
    exact = fn(x.double())
    mine, eager = ((y.double() - exact).abs().max() for y in (minicompile.compile(fn)(x), fn(x)))
    assert mine <= 2 * eager


def test_a_sum_beyond_floats_has_an_infinite_mean() -> None:
    x = torch.full((3, 100), 3e38)
    x[1] *= -1
    assert torch.equal(minicompile.compile(lambda x: x.mean(1))(x), torch.tensor([torch.inf, -torch.inf, torch.inf]))
    assert torch.equal(minicompile.compile(lambda x: x.T.mean(0))(x), x.mean(1))
