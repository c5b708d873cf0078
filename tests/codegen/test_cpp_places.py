"""Places of extrema: the first of equals, NaN before all else, in rows of every length and dtype; only the block that
holds the extremum is searched."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.codegen.cpp_places import SHORTEST

inf, nan = math.inf, math.nan

LENGTHS = [SHORTEST - 1, SHORTEST, SHORTEST + 1, 1500, 2048, 4100]

FORMS: list[Callable[[Tensor], object]] = [
    lambda x: x.argmax(-1), lambda x: x.argmin(-1), lambda x: x.max(-1), lambda x: x.min(-1, keepdim=True),
    lambda x: (x * 2 + 1).argmax(-1), lambda x: x[:, 3:].argmax(-1), lambda x: x.flip(-1).argmin(-1),
    lambda x: (x.argmax(-1), x.sum(-1)), lambda x: (x.argmax(-1), x.argmin(-1)), lambda x: x - x.max(-1, True)[0],
    lambda x: x[..., None].argmax(1), lambda x: x.argmax(),
]  # fmt: skip


def source(compiled: minicompile.Compiled[..., object]) -> str:
    return "".join(graph.compiled.native_source for graph in compiled.entries[-1].graphs)


def special_rows(length: int) -> Tensor:
    """Rows whose extremum is where one block ends or another begins, or there several times, or NaN."""
    x = torch.randn(16, length)
    x[0], x[1], x[2] = 0.0, -inf, inf
    x[3, length // 2 :] = nan
    x[4, -1], x[5, 0], x[6, 511], x[7, 512] = nan, nan, nan, nan
    x[8, -1], x[9, 0], x[10, 511], x[11, 512] = 9.0, 9.0, 9.0, 9.0
    x[12, ::600], x[13, 7::300] = 9.0, -9.0
    x[14] = x[14].round()
    x[15], x[15, 600:] = -0.0, 0.0
    return x


@pytest.mark.parametrize("fn", FORMS)
def test_places_of_special_rows(fn: Callable[[Tensor], object]) -> None:
    compiled = minicompile.compile(fn, dynamic=False)
    for length in (1500, 4100):
        x = special_rows(length)
        torch.testing.assert_close(compiled(x), fn(x), rtol=1e-5, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8])
def test_places_in_every_dtype(dtype: torch.dtype) -> None:
    def fn(x: Tensor) -> object:
        return x.max(-1), x.argmin(-1)

    compiled = minicompile.compile(fn, dynamic=False)
    for x in (special_rows(1500), torch.randn(3, 4, 2048)):
        given = (x if dtype.is_floating_point else x.nan_to_num(7, 100, -100).abs() * 2).to(dtype)
        assert_same(compiled(given), fn(given))
    if not dtype.is_floating_point:
        least = torch.full((2, 1500), torch.iinfo(dtype).min, dtype=dtype)
        assert_same(compiled(least), fn(least))


def assert_same(actual: object, expected: object) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_places_of_every_length() -> None:
    compiled = minicompile.compile(lambda x: x.max(-1), dynamic=True)
    for length in LENGTHS:
        for x in (torch.randn(9, length), special_rows(max(length, SHORTEST))):
            assert_same(compiled(x), x.max(-1))
    assert len(compiled.entries) == 1


def test_only_a_block_is_searched() -> None:
    x = torch.randn(8, 4096)
    for fn in FORMS[:5]:
        compiled = minicompile.compile(fn)
        compiled(x)
        assert "found_" in source(compiled)
    for fn in (FORMS[8], FORMS[11]):  # two places in one loop; a row that its threads share
        compiled = minicompile.compile(fn)
        compiled(torch.randn(16, 65536) if fn is FORMS[11] else x)
        assert "found_" not in source(compiled)


def test_the_next_row_is_asked_for_by_the_loop_that_waits() -> None:
    compiled = minicompile.compile(lambda x: x.argmax(-1))
    compiled(torch.randn(512, 4096))
    first, search = source(compiled).split("found_", 1)
    assert "__builtin_prefetch" in first and "__builtin_prefetch" not in search
