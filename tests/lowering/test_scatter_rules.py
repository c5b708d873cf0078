"""Writing by index: few indices a row in kernels, in eager's order; all others ATen's; errors are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile

from .support import check_function, externs

INF, NAN = float("inf"), float("nan")
TWICE = torch.tensor([[2, 2, 0], [1, 1, 1], [0, 3, 0], [4, 0, 4]])  # in rows: the last write wins, sums are in order
DOWN = torch.tensor([[3, 0, 1, 2, 2], [3, 0, 0, 2, 1]])
PAIR, ONE = torch.tensor([3, 3]), torch.tensor([1])


def put(x: torch.Tensor, place: Any, values: Any) -> torch.Tensor:
    """`x[place] = values`, of a copy."""
    places = place if isinstance(place, tuple) else (place,)
    values = values if hasattr(values, "to") else torch.tensor(values).to(x.dtype)
    return torch.ops.aten.index_put(x, [None if isinstance(index, slice) else index for index in places], values)


def table(dtype: torch.dtype) -> torch.Tensor:
    """(4, 5); some special values among the floats."""
    x = torch.arange(20.0).reshape(4, 5) * 0.7 - 3
    if dtype.is_floating_point:
        x[0, 0], x[1, 1], x[2, 2], x[3, 4] = NAN, INF, -0.0, -INF
    return (x > 0) if dtype is torch.bool else x.to(dtype)


OVERWRITE: dict[str, Callable[[torch.Tensor], Any]] = {
    "scatter": lambda x: x.scatter(1, TWICE, x.flip(1)),
    "scatter down": lambda x: x.scatter(0, DOWN, x),
    "scatter from the end": lambda x: x.scatter(-1, TWICE.int(), x),
    "scatter a value": lambda x: x.scatter(1, TWICE, 2),
    "one hot": lambda x: torch.zeros_like(x).scatter_(1, TWICE[:, :1], 1) * 3,
    "scatter into a permuted tensor": lambda x: x.t().scatter(0, TWICE.t(), x.t()),
    "no index": lambda x: x.scatter(1, TWICE[:, :0], x),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([-1, 2]), 1),
    "index_fill a tensor": lambda x: x.index_fill(0, PAIR, x[1, 2]),
    "index_copy": lambda x: x.index_copy(0, PAIR, x[:2]),
    "index_copy a column": lambda x: x.index_copy(1, ONE, x[:, 4:]),
    "written in place": lambda x: x.clone().index_copy_(1, ONE, x[:, 4:]).index_fill_(0, ONE, 0),
    "of a vector": lambda x: x[0].index_copy(0, PAIR, x[1, :2]),
    "index_put": lambda x: x.index_put((PAIR,), x[1:3]),
    "index_put a column": lambda x: put(x, (slice(None), PAIR - 4), x[:, 1:3]),
    "index_put one row for all": lambda x: put(x, PAIR, x[0]),
    "index_put a number": lambda x: put(x, (slice(None), ONE.int()), 1),
    "index_put at a number": lambda x: put(x, (slice(None), ONE[0]), x[:, 0]),
    "index_put at a number in between": lambda x: put(x[:, None].clone(), (slice(None), ONE[0] - 1), x),
}
MASKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a number": lambda x: put(x, x > 0, 1),
    "a computed number": lambda x: put(x, x > 0, x[1, 2]),
    "rows": lambda x: put(x, x[:, 2] > 0, 0),
    "a row for rows": lambda x: put(x, x[:, 2] > 0, x[1]),
    "columns": lambda x: put(x, (slice(None), x[0] > 0), 1),
    "a column for columns": lambda x: put(x, (slice(None), x[0] > 0), x[:, :1]),
    "in the middle": lambda x: put(x.repeat(2, 3).view(2, 4, 3, 5), (slice(None), x[:, :3] > 0), x[:2, None, :]),
    "nothing": lambda x: put(x, x != x, 1) if x.dtype is not torch.bool else put(x, x & ~x, True),
    "one element": lambda x: x.index_put((x > 0,), x[0, 1:2]),
    "a permuted tensor": lambda x: put(x.t(), x.t() > 0, x.t()[3, 1]),
}
ADD: dict[str, Callable[[torch.Tensor], Any]] = {
    "scatter_add": lambda x: x.scatter_add(1, TWICE, x),
    "scatter_add down": lambda x: x.scatter_add(0, DOWN, x.flip(0)),
    "scatter_add of one": lambda x: x.scatter_add(1, TWICE[:, :1], x),
    "index_add": lambda x: x.index_add(0, PAIR, x[1:3]),
    "index_add of one": lambda x: x.index_add(1, ONE, x[:, :1]),
    "index_put": lambda x: x.index_put((PAIR,), x[1:3], accumulate=True),
    "index_put of one": lambda x: torch.ops.aten.index_put(x, [None, ONE], x[:, :1], True),
    "mask of one": lambda x: x.index_put((x > 0,), x[0, 1], accumulate=True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", OVERWRITE)
def test_the_last_write_wins(kernel_only, name, dtype):
    kernel_only(OVERWRITE[name], table(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("name", MASKS)
def test_written_by_a_mask(kernel_only, name, dtype):
    kernel_only(MASKS[name], table(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("name", ADD)
def test_sums_are_added_one_by_one(name, dtype):
    """Several sums of half precision, and the scaled ones, stay ATen's."""
    graph = check_function(ADD[name], table(dtype))
    assert bool(externs(graph)) == (dtype is torch.bfloat16 and "of one" not in name)


@pytest.mark.parametrize("function", [
    lambda x: x.scatter(1, torch.zeros(4, 5, dtype=torch.int64), x),
    lambda x: x.scatter(1, TWICE[:2], x),
    lambda x: x[0, 0].scatter(0, torch.tensor(0), 2.0),
    lambda x: x.index_add(0, PAIR, x[1:3], alpha=2),
    lambda x: (x > 0).index_add(0, PAIR, x[1:3] > 0),
    lambda x: x.scatter(1, TWICE, 2, reduce="multiply"),
    lambda x: x.index_put((PAIR, PAIR), x[0, :2]),
    lambda x: x.index_put((torch.arange(4) % 2 == 0,), x[:2]),
], ids=["many", "smaller index", "number", "alpha", "bools", "reduce", "two indices", "a value for each"])  # fmt: skip
def test_the_rest_stays_atens(check, function):
    assert externs(check(function, table(torch.float32)))


WRONG: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "scatter": lambda x, i: x.scatter(1, i[None].expand(4, 1), x),
    "scatter_add": lambda x, i: x.scatter_add(1, i[None].expand(4, 1), x),
    "index_fill": lambda x, i: x.index_fill(1, i, 0),
    "index_copy": lambda x, i: x.index_copy(1, i, x[:, :1]),
    "index_add": lambda x, i: x.index_add(1, i, x[:, :1]),
    "index_put": lambda x, i: put(x, (slice(None), i), x[:, :1]),
}


@pytest.mark.parametrize("index", [-6, -1, 0, 4, 5])
@pytest.mark.parametrize("name", WRONG)
def test_an_index_out_of_range_is_eagers_error(name, index):
    """A negative one is, too, but for `index_fill` and `index_put`."""
    function, x, place = WRONG[name], table(torch.float32), torch.tensor([index])
    compiled = minicompile.compile(function, fullgraph=True)
    compiled(x, torch.tensor([0]))
    try:
        wanted = function(x, place)
    except (IndexError, RuntimeError) as error:
        with pytest.raises(type(error)) as caught:
            compiled(x, place)
        assert str(caught.value) == str(error)
    else:
        torch.testing.assert_close(compiled(x, place), wanted, equal_nan=True, rtol=0, atol=0)


def test_gradients() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x.scatter(1, i, y).exp() * x.index_add(1, i[0, :1], y[:, :1])).sum()

    results = []
    for call in (function, minicompile.compile(function, fullgraph=True)):
        x, y = (torch.linspace(-1, 1, n).reshape(4, -1).requires_grad_() for n in (20, 12))
        call(x, y, torch.tensor([[0, 2, 2]] * 4)).backward()
        results.append((x.grad, y.grad))
    torch.testing.assert_close(results[1], results[0])


def test_assignments_by_masks_that_vary_in_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[y > 0.5] = -1.0
        y[x.sum(1) > 0] += 1
        y[:, x[0] > 0] = y[:, :1]
        return y

    compiled = minicompile.compile(function, dynamic=True)
    for rows, columns in ((3, 4), (5, 2), (7, 9)):
        x = torch.randn(rows, columns)
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("wrong", [
    lambda x: put(x, torch.ones(5) > 0, 0), lambda x: put(x, (slice(None), torch.ones(4) > 0), 0),
    lambda x: put(x, x > 0, x[0, :3]), lambda x: put(x, PAIR, x[0, :3]),
    lambda x: put(x, (slice(None), ONE), x[:3, :1]), lambda x: put(x, x[:, 0] > 0, x[:3, :3]),
], ids=["mask", "second mask", "values", "rows", "columns", "both"])  # fmt: skip
def test_shapes_that_do_not_fit_are_eagers_errors(wrong: Any) -> None:
    """Torch's fake tensors let them pass."""
    with pytest.raises(Exception) as theirs:
        wrong(table(torch.float32))
    with pytest.raises(type(theirs.value)) as ours:
        minicompile.compile(wrong)(table(torch.float32))
    assert str(ours.value) == str(theirs.value)
