"""Rules for reading by index: index, gather, embedding, unfold, diagonals.

All become the IR's `gather`. An index that eager would refuse makes the kernel return an error, after which the frame
runs again in eager, which raises.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Node
from ..ir.symbols import is_static
from .emit import broadcast_shapes
from .errors import NotConvertible
from .rules import rule

INDEX_DTYPES = (torch.int64, torch.int32)


def check_index(index: Node) -> None:
    """A bool index is a selection whose size depends on data; uint8 is an old spelling of bool."""
    if index.tensor.dtype not in INDEX_DTYPES:
        raise NotConvertible(f"an index of {index.tensor.dtype}")


@rule("index.Tensor")
def index(c: Any, x: Node, indices: Any) -> Node:
    return index_by(c, x, indices, "wrap")


@rule("_unsafe_index.Tensor")
def unsafe_index(c: Any, x: Node, indices: Any) -> Node:
    return index_by(c, x, indices, "wrap")


def index_by(c: Any, x: Node, indices: Any, checked: str, mask: Node | None = None) -> Node:
    """`x[indices]` with None for whole dimensions. The results of neighbouring indices stay in place; others go first.

    The indexed dimensions are moved together, and the broadcast indices' dimensions stand in their place.
    """
    indices = list(indices) + [None] * (x.tensor.rank - len(indices))
    dims = [d for d, node in enumerate(indices) if node is not None]
    if not dims:
        return x
    for d in dims:
        check_index(indices[d])
    block = broadcast_shapes([indices[d].tensor.shape for d in dims])
    block = (1,) * (len(dims) - len(block)) + block
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    rest = [d for d in range(x.tensor.rank) if d not in dims]
    sizes = [x.tensor.shape[d] for d in rest]
    source = c.permute(x, [*rest[:first], *dims, *rest[first:]])
    extra = len(block) - len(dims)
    source = c.reshape(source, (*sizes[:first], *(1,) * extra, *(x.tensor.shape[d] for d in dims), *sizes[first:]))
    shape = (*sizes[:first], *block, *sizes[first:])
    after = (1,) * len(sizes[first:])
    places = {
        first + extra + i: c.reshape(indices[d], indices[d].tensor.shape + after) for i, d in enumerate(dims)
    }
    mask = None if mask is None else c.reshape(mask, mask.tensor.shape + after)
    return c.reshape(c.gather(source, places, shape, mask=mask, checked=checked), c.out.shape)


@rule("_unsafe_masked_index.default")
def masked_index(c: Any, x: Node, mask: Node, indices: Any, fill: Any) -> Node:
    if len(indices) != x.tensor.rank or any(node is None for node in indices):
        raise NotConvertible("a masked index that leaves dimensions whole")
    shape = c.out.shape
    return c.where(c.expand(mask, shape), c.expand(index_by(c, x, indices, "", mask), shape), fill)


@rule("index_select.default")
def index_select(c: Any, x: Node, dim: int, index: Node) -> Node:
    check_index(index)
    if x.tensor.rank == 0:
        x, dim = c.reshape(x, (1,)), 0
    dim %= x.tensor.rank
    column = tuple(index.tensor.numel if i == dim else 1 for i in range(x.tensor.rank))
    shape = (*x.tensor.shape[:dim], index.tensor.numel, *x.tensor.shape[dim + 1 :])
    return c.reshape(c.gather(x, {dim: c.reshape(index, column)}, shape, checked="strict"), c.out.shape)


@rule("embedding.default")
def embedding(c: Any, weight: Node, index: Node, *_: Any) -> Node:
    check_index(index)
    rank = index.tensor.rank
    source = c.reshape(weight, (*(1,) * (rank - 1), *weight.tensor.shape) if rank else weight.tensor.shape)
    shape = index.tensor.shape if rank else (1,)
    place = c.reshape(index, (*shape, 1))
    result = c.gather(source, {max(rank - 1, 0): place}, (*shape, weight.tensor.shape[1]), checked="strict")
    return c.reshape(result, c.out.shape)


@rule("gather.default")
def gather(c: Any, x: Node, dim: int, index: Node, sparse_grad: bool = False) -> Node:
    """The index may be smaller than the source in the other dimensions."""
    check_index(index)
    if x.tensor.rank == 0 or index.tensor.rank != x.tensor.rank:
        raise NotConvertible("a gather of a number")
    dim %= x.tensor.rank
    for d, size in enumerate(index.tensor.shape):
        x = x if d == dim else c.slice(x, d, 0, size)
    return c.gather(x, {dim: index}, c.out.shape, checked="strict")


@rule("take.default")
def take(c: Any, x: Node, index: Node) -> Node:
    check_index(index)
    shape = index.tensor.shape or (1,)
    rank = len(shape)
    source = c.reshape(x, (*(1,) * (rank - 1), x.tensor.numel))
    return c.reshape(c.gather(source, {rank - 1: c.reshape(index, shape)}, shape, checked="wrap"), c.out.shape)


# --- windows and diagonals ------------------------------------------------------------------------------------------


@rule("unfold.default", "unfold_copy.default")
def unfold(c: Any, x: Node, dim: int, size: int, step: int) -> Node:
    """Element (…, w, …, k) is x's at w * step + k."""
    rank = x.tensor.rank
    if rank == 0:
        return c.reshape(x, c.out.shape)
    dim %= rank
    shape, device = c.out.shape, c.out.device
    place = c.add(c.mul(c.positions(shape, dim, device), step), c.positions(shape, rank, device))
    return c.gather(c.reshape(x, (*x.tensor.shape, 1)), {dim: place}, shape)


def _diagonal_last(x: Node, first: int, second: int) -> list[int]:
    """The order of dimensions that puts the two last."""
    rank = x.tensor.rank
    first, second = first % rank, second % rank
    return [d for d in range(rank) if d not in (first, second)] + [first, second]


@rule("diagonal.default", "diagonal_copy.default")
def diagonal(c: Any, x: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    source = c.permute(x, _diagonal_last(x, dim1, dim2))
    rank = x.tensor.rank
    length = c.out.shape[-1]
    shape = (*source.tensor.shape[:-2], 1, length)
    place = c.positions(shape, rank - 1, c.out.device)
    row, column = (c.add(place, start) if start else place for start in (max(-offset, 0), max(offset, 0)))
    return c.reshape(c.gather(source, {rank - 2: row, rank - 1: column}, shape), c.out.shape)


@rule("diagonal_scatter.default")
def diagonal_scatter(c: Any, x: Node, source: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """x with the source on a diagonal: where column - row is the offset, at the row's place in the source."""
    order = _diagonal_last(x, dim1, dim2)
    rank = x.tensor.rank
    inner = c.permute(x, order)
    shape = inner.tensor.shape
    row, column = (c.positions(shape, d, c.out.device) for d in (rank - 2, rank - 1))
    on_diagonal = c.eq(c.sub(column, row), offset)
    source = c.cast(source, c.out.dtype)
    source = c.reshape(source, (*source.tensor.shape[:-1], 1, source.tensor.shape[-1]))
    value = c.gather(source, {rank - 1: c.sub(row, max(-offset, 0))}, shape, mask=on_diagonal)
    result = c.where(on_diagonal, value, inner)
    return c.permute(result, [order.index(d) for d in range(rank)])


@rule("trace.default")
def trace(c: Any, x: Node) -> Node:
    size = min(x.tensor.shape) if all(map(is_static, x.tensor.shape)) else None
    if not size:
        raise NotConvertible("the trace of a matrix of unknown size, or of none")
    place = c.positions((1, size), 1, c.out.device)
    diagonal = c.cast(c.gather(x, {0: place, 1: place}, (1, size)), c.out.dtype)
    return c.reshape(c.reduce("sum", diagonal, (1,)), ())
