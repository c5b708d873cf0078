"""Rows added by atomic additions, in Triton's interpreter, against ATen. Run by test_atomics.py in a process of its
own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minicompile.codegen import triton_atomics
from minicompile.codegen.triton_atomics import add_rows

SHAPES = {
    "rows": ((7, 5), 0, 11), "columns": ((7, 5), 1, 600), "planes": ((3, 4, 5), 1, 9), "numbers": ((6,), 0, 1200),
    "none": ((6, 2), 0, 0), "one place": ((1, 300), 0, 5),
}  # fmt: skip
DTYPES = [torch.float32, torch.float64]


def case(name: str, dtype: torch.dtype = torch.float32, low: int = 0) -> tuple[Any, int, Any, Any]:
    torch.manual_seed(0)
    shape, dim, count = SHAPES[name]
    rows = (*shape[:dim], count, *shape[dim + 1 :])
    index = torch.randint(low * shape[dim], shape[dim], (count,))
    return torch.randn(shape, dtype=dtype), dim, index, torch.randn(rows, dtype=dtype)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "none"])
def test_rows_are_added(name: str, dtype: torch.dtype, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if wide:
        monkeypatch.setattr(triton_atomics, "NARROW", 0)
    x, dim, index, rows = case(name, dtype)
    want = x.index_add(dim, index, rows)
    add_rows(x, dim, index.to(torch.int32 if wide else torch.int64), rows, wraps=False)
    torch.testing.assert_close(x, want)


def test_indices_count_from_the_end_where_they_may() -> None:
    x, dim, index, rows = case("rows", low=-1)
    want = x.index_put((index,), rows, accumulate=True)
    add_rows(x, dim, index, rows, wraps=True)
    torch.testing.assert_close(x, want)


@pytest.mark.parametrize(("place", "wraps"), [(7, True), (-8, True), (-1, False), (7, False)])
def test_an_index_out_of_range_stops_the_kernel(place: int, wraps: bool) -> None:
    x, dim, index, rows = case("rows")
    index[4] = place
    with pytest.raises(Exception, match="out of range"):
        add_rows(x, dim, index, rows, wraps)


def test_one_place_may_be_skipped_and_sums_be_wider_than_their_terms() -> None:
    _, dim, index, rows = case("rows")
    result, half = torch.zeros(7, 5), rows.to(torch.bfloat16)
    add_rows(result, dim, index, half, wraps=False, skipped=2)
    want = torch.ops.aten.embedding_dense_backward(half.float(), index, 7, 2, False)
    torch.testing.assert_close(result, want)
