"""What eager refuses is refused while tracing too, and what was in range for one size is guarded for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from tests.fuzz.shapes import interpreted
from tests.support import assert_same

ones = torch.ones


def numbers(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int64)


PROGRAMS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "select": lambda x, n: x.select(0, n),
    "select from the end": lambda x, n: x.select(0, -n),
    "index": lambda x, n: x[n] * 2,
    "index behind an ellipsis": lambda x, n: x[..., n],
    "two indices": lambda x, n: x[n, n],
    "select a number": lambda x, n: x.select(0, 3) + n,
    "select twice": lambda x, n: (x.select(0, n), x.select(1, n + 1)),
    "result not used": lambda x, n: (x.select(0, n), x + 1)[1],
    "select_copy": lambda x, n: torch.select_copy(x, 0, n),
    "write to an element": lambda x, n: x.clone().select(0, n).zero_(),
    "narrow": lambda x, n: x.narrow(0, n, 1),
    "unbind": lambda x, n: x.unbind()[n],
    "select_scatter": lambda x, n: torch.select_scatter(x, x[0] * 2, 0, n),
    "select_scatter another row": lambda x, n: torch.select_scatter(x, ones(n), 0, 0),
    "slice_scatter": lambda x, n: torch.slice_scatter(x, ones(2, x.shape[1]), 0, n, n + 2),
    "slice_scatter another row": lambda x, n: torch.slice_scatter(x, ones(2, n), 0, 0, 2),
    "diagonal_scatter": lambda x, n: torch.diagonal_scatter(x, ones(n), 0),
    "as_strided_scatter": lambda x, n: torch.as_strided_scatter(x, ones(n), (3,), (1,)),
    "index_add": lambda x, n: x.index_add(0, numbers(2), ones(2, n)),
    "index_copy": lambda x, n: x.index_copy(0, numbers(n), ones(2, x.shape[1])),
    "masked_scatter": lambda x, n: x.masked_scatter(ones(n).to(torch.int32), x),
    "bucketize": lambda x, n: torch.bucketize(x, ones(n, 2)),
}
DEAD = {
    "softmax": lambda x, n: (x.softmax(n - 2), x)[1],
    "sort": lambda x, n: (x.sort(n - 2), x)[1],
}
"""Results that nobody reads: only tracing can refuse them."""
PROGRAMS |= DEAD
CALLS = [((4, 6), 3), ((5, 6), 4), ((3, 6), 2), ((3, 6), 3), ((2, 6), 5), ((6, 3), 3), ((3, 4), 2), ((2, 6), 6)]


def outcome(fn: Any, *args: Any) -> Any:
    try:
        return fn(*args)
    except (IndexError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("dynamic", [True, None, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_later_call_that_eager_refuses_is_refused(name: str, dynamic: bool | None) -> None:
    fn = PROGRAMS[name]
    compiled = minicompile.compile(fn, backend=interpreted, dynamic=dynamic)
    expected = [outcome(fn, torch.arange(float(rows * columns)).view(rows, columns), n) for (rows, columns), n in CALLS]
    assert any(isinstance(result, type) for result in expected)
    with minicompile.config.patch(recompile_limit=64):
        for (size, n), result in zip(CALLS, expected, strict=True):
            assert_same(outcome(compiled, torch.arange(float(size[0] * size[1])).view(size), n), result, strides=False)


def test_one_entry_serves_all_indices_in_range() -> None:
    compiled = minicompile.compile(lambda x, n: x[n] + x.select(1, n), backend="eager", dynamic=True)
    for rows, n in ((4, 3), (9, 2), (7, 6), (5, 2)):
        compiled(torch.randn(rows, rows), n)
    assert len(compiled.entries) <= 2, compiled.recompiles
    assert "n" in str(compiled.entries[-1].guards)
