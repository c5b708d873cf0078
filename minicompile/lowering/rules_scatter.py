"""Rules for writing by index: scatter, scatter_add, index_fill, index_copy, index_add and index_put with few indices a
row, and index_put by a mask.

A kernel that owns one element of the result asks of each index, in eager's order, whether it names that element: the
last write wins and sums are added up one by one, as eager's loops do. That is one comparison an index, so more than
`FEW` of them stay ATen's, whose loops run over the indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.symbols import is_static, same_dim
from .emit import opmath, same_shape
from .errors import NotConvertible
from .rules import rule
from .rules_index import check_index

FEW = 4
"""Indices a row, at most."""

Join = Callable[[Node, Any], Any]


def _steps(index: Node, dim: int) -> range:
    """The places of an index along `dim`. Raises NotConvertible where there are too many, or who knows how many."""
    size = index.tensor.shape[dim]
    if not is_static(size) or size > FEW:
        raise NotConvertible("many writes by index")
    return range(size)


def _in_range(c: Any, index: Node, size: Any, wraps: bool) -> Node:
    """The index itself, but one that eager refuses makes the kernel fail: it is looked up among the positions."""
    if is_static(size) and size == 0:
        raise NotConvertible("an index into an empty dimension")
    index = c.cast(index, torch.int64)
    flat = c.reshape(index, (index.tensor.numel,))
    places = c.positions((size,), 0, index.tensor.device)
    checked = c.gather(places, {0: flat}, flat.tensor.shape, checked="wrap" if wraps else "strict")
    return c.reshape(checked, index.tensor.shape)


def _written(c: Any, x: Node, dim: int, index: Node, values: Any, join: Join) -> Node:
    """x, with `join(x's element, the value)` where an index names the place; index and values are of x's rank."""
    place = c.positions(x.tensor.shape, dim, x.tensor.device)
    for step in _steps(index, dim):
        here = c.eq(c.slice(index, dim, step, 1), place)
        value = c.slice(values, dim, step, 1) if isinstance(values, Node) else values
        x = c.where(here, join(x, value), x)
    return x


def _overwrite(_: Node, value: Any) -> Any:
    return value


def _adder(c: Any, x: Node, steps: range) -> Join:
    """Additions that are rounded one by one. Eager sums several of half precision in float32."""
    if x.tensor.dtype is torch.bool or (len(steps) > 1 and opmath(x.tensor.dtype) is not x.tensor.dtype):
        raise NotConvertible(f"sums of {x.tensor.dtype} by index")
    return c.add


# --- scatter: an index for each element -------------------------------------------------------------------------------


def _scatter_operands(c: Any, x: Node, dim: int, index: Node, values: Any) -> tuple[int, Node, Any]:
    """The dimension, the checked index, and the part of the values that it uses."""
    check_index(index)
    rank = x.tensor.rank
    if rank == 0 or index.tensor.rank != rank or (isinstance(values, Node) and values.tensor.rank != rank):
        raise NotConvertible("a scatter of numbers")
    dim %= rank
    _steps(index, dim)
    sizes = index.tensor.shape
    if any(d != dim and not same_dim(size, x.tensor.shape[d]) for d, size in enumerate(sizes)):
        raise NotConvertible("an index smaller than what it writes to")
    if isinstance(values, Node):
        for d, size in enumerate(sizes):
            values = c.slice(values, d, 0, size)
    return dim, _in_range(c, index, x.tensor.shape[dim], False), values


@rule("scatter.src", "scatter.value")
def scatter(c: Any, x: Node, dim: int, index: Node, values: Any) -> Node:
    dim, index, values = _scatter_operands(c, x, dim, index, values)
    return _written(c, x, dim, index, values, _overwrite)


@rule("scatter_add.default")
def scatter_add(c: Any, x: Node, dim: int, index: Node, values: Node) -> Node:
    dim, index, values = _scatter_operands(c, x, dim, index, values)
    return _written(c, x, dim, index, values, _adder(c, x, _steps(index, dim)))


# --- one index for whole rows -----------------------------------------------------------------------------------------


def _row_index(c: Any, x: Node, dim: int, index: Node, wraps: bool) -> tuple[int, Node]:
    """The dimension, and the checked index along it, of x's rank."""
    check_index(index)
    if x.tensor.rank == 0 or index.tensor.rank > 1:
        raise NotConvertible("rows of a number")
    dim %= x.tensor.rank
    column = tuple(index.tensor.numel if d == dim else 1 for d in range(x.tensor.rank))
    index = c.reshape(index, column)
    _steps(index, dim)
    return dim, _in_range(c, index, x.tensor.shape[dim], wraps)


@rule("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(c: Any, x: Node, dim: int, index: Node, value: Any) -> Node:
    dim, index = _row_index(c, x, dim, index, True)
    value = c.cast(value, x.tensor.dtype) if isinstance(value, Node) else value
    return _written(c, x, dim, index, None, lambda *_: value)


@rule("index_copy.default")
def index_copy(c: Any, x: Node, dim: int, index: Node, values: Node) -> Node:
    dim, index = _row_index(c, x, dim, index, False)
    _rows_only(x, values)
    return _written(c, x, dim, index, values, _overwrite)


@rule("index_add.default")
def index_add(c: Any, x: Node, dim: int, index: Node, values: Node, alpha: Any = 1) -> Node:
    dim, index = _row_index(c, x, dim, index, False)
    _rows_only(x, values)
    if alpha != 1:
        raise NotConvertible("scaled rows")
    return _written(c, x, dim, index, values, _adder(c, x, _steps(index, dim)))


def _rows_only(x: Node, values: Node) -> None:
    if values.tensor.rank != x.tensor.rank or values.tensor.dtype is not x.tensor.dtype:
        raise NotConvertible("rows of another rank or dtype")


# --- x[indices] = values ----------------------------------------------------------------------------------------------


@rule("index_put.default", "_unsafe_index_put.default")
def index_put(c: Any, x: Node, indices: Any, values: Node, accumulate: bool = False) -> Node:
    """By one mask, if no value is for one of its places alone, or by one short index."""
    places = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(places) != 1 or values.tensor.dtype is not x.tensor.dtype:
        raise NotConvertible("several indices")
    (dim, index), rank = places[0], places[0][1].tensor.rank
    before, after = x.tensor.shape[:dim], x.tensor.shape[dim + max(rank, 1) :]
    if index.tensor.dtype is torch.bool:
        return _put_by_mask(c, x, index, values, before, after, accumulate)
    dim, index = _row_index(c, x, dim, index, True)
    steps = _steps(index, dim)
    values = _broadcast(c, values, (*before, *((len(steps),) if rank else ()), *after))
    rows = c.reshape(values, (*before, len(steps), *after))
    return _written(c, x, dim, index, rows, _adder(c, x, steps) if accumulate else _overwrite)


def _put_by_mask(c: Any, x: Node, mask: Node, values: Node, before: Any, after: Any, accumulate: bool) -> Node:
    """Values broadcast against (dimensions before, places where the mask is true, dimensions after)."""
    rank, shape = mask.tensor.rank, values.tensor.shape
    if rank == 0 or len(shape) > len(before) + 1 + len(after):
        raise NotConvertible("a mask of a number")
    if not same_shape(mask.tensor.shape, x.tensor.shape[len(before) : len(before) + rank]):
        raise NotConvertible("a mask that may be of another size")
    shape = (1,) * (len(before) + 1 + len(after) - len(shape)) + shape
    if not same_dim(shape[len(before)], 1):
        raise NotConvertible("a value for each place of a mask")
    values = c.reshape(values, (*shape[: len(before)], *(1,) * rank, *shape[len(before) + 1 :]))
    mask = c.expand(c.reshape(mask, mask.tensor.shape + (1,) * len(after)), x.tensor.shape)
    values = _broadcast(c, values, x.tensor.shape)
    return c.where(mask, c.add(x, values) if accumulate else values, x)


def _broadcast(c: Any, values: Node, shape: Any) -> Node:
    """The values in that shape. Torch's fake tensors do not look whether they have it."""
    have = (1,) * (len(shape) - values.tensor.rank) + values.tensor.shape
    if len(have) > len(shape) or not all(same_dim(a, 1) or same_dim(a, b) for a, b in zip(have, shape, strict=True)):
        raise NotConvertible("values that may not fit")
    return c.expand(values, shape)
