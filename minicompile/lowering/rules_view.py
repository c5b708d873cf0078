"""Rules for views: all of ATen's reduce to reshape, permute, expand and slice.

Views into storage (as_strided, dtype views) have no rule: they become extern calls that copy; diagonal and unfold are
in rules_index.py.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Node
from ..ir.symbols import is_static
from .errors import NotConvertible
from .rules import rule


@rule("view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "view_copy.default",
      "squeeze.default", "squeeze.dim", "squeeze.dims", "flatten.using_ints", "unflatten.int", "_reshape_alias.default")
def reshape(c: Any, x: Node, *_: Any) -> Node:
    return c.reshape(x, c.out.shape)


@rule("permute.default")
def permute(c: Any, x: Node, dims: Any) -> Node:
    return c.permute(x, tuple(d % x.tensor.rank for d in dims))


@rule("transpose.int")
def transpose(c: Any, x: Node, first: int, second: int) -> Node:
    rank = x.tensor.rank
    if rank == 0:
        return x
    dims = list(range(rank))
    dims[first], dims[second] = dims[second], dims[first]
    return c.permute(x, dims)


@rule("t.default", "numpy_T.default")
def reverse_dims(c: Any, x: Node) -> Node:
    return c.permute(x, tuple(reversed(range(x.tensor.rank))))


@rule("expand.default")
def expand(c: Any, x: Node, size: Any, implicit: bool = False) -> Node:
    return c.expand(x, c.out.shape)


@rule("repeat.default")
def repeat(c: Any, x: Node, repeats: Any) -> Node:
    """Each dimension becomes (repeat, size), expanded and merged again."""
    shape = (1,) * (len(repeats) - x.tensor.rank) + x.tensor.shape
    pairs = [(int(count), size) for count, size in zip(repeats, shape, strict=True) if is_static(count)]
    if len(pairs) != len(shape):
        raise NotConvertible("a symbolic number of repeats")
    x = c.reshape(x, [size for _, size in pairs for size in (1, size)])
    return c.reshape(c.expand(x, [size for pair in pairs for size in pair]), c.out.shape)


# --- slices ---------------------------------------------------------------------------------------------------------


def normal_index(c: Any, index: Any, size: Any) -> Any:
    """A start or element index counted from the front."""
    return index + size if c.is_negative(index) else index


def slice_start(c: Any, start: Any, size: Any) -> Any:
    """A slice's start, counted from the front, and neither before it nor past the end."""
    start = normal_index(c, 0 if start is None else start, size)
    if c.is_negative(start):
        return 0
    return size if c.is_negative(size - start) else start


@rule("slice.Tensor")
def slice_(c: Any, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Node:
    dim %= x.tensor.rank
    return c.slice(x, dim, slice_start(c, start, x.tensor.shape[dim]), c.out.shape[dim], step)


@rule("narrow.default")
def narrow(c: Any, x: Node, dim: int, start: Any, length: Any) -> Node:
    dim %= x.tensor.rank
    return c.slice(x, dim, normal_index(c, start, x.tensor.shape[dim]), length)


@rule("select.int")
def select(c: Any, x: Node, dim: int, index: Any) -> Node:
    dim %= x.tensor.rank
    return c.select(x, dim, normal_index(c, index, x.tensor.shape[dim]))


@rule("unbind.int")
def unbind(c: Any, x: Node, dim: int = 0) -> list[Node]:
    dim %= x.tensor.rank
    return [c.select(x, dim, i) for i in range(len(c.outs))]


@rule("split.Tensor", "split_with_sizes.default", "chunk.default", "unsafe_split.Tensor", "unsafe_chunk.default",
      "unsafe_split_with_sizes.default", "tensor_split.sections", "tensor_split.indices")
def split(c: Any, x: Node, sizes: Any, dim: int = 0) -> list[Node]:
    """Consecutive slices, as long as the results are."""
    dim %= x.tensor.rank
    nodes, start = [], 0
    for type in c.outs:
        nodes.append(c.slice(x, dim, start, type.shape[dim]))
        start = start + type.shape[dim]
    return nodes


# --- writing through views, once functional -------------------------------------------------------------------------


@rule("select_scatter.default")
def select_scatter(c: Any, x: Node, source: Node, dim: int, index: Any) -> Node:
    dim %= x.tensor.rank
    index = normal_index(c, index, x.tensor.shape[dim])
    shape = x.tensor.shape
    source = c.reshape(c.cast(source, c.out.dtype), shape[:dim] + (1,) + shape[dim + 1 :])
    return c.where(c.eq(_positions(c, x, dim), index), source, x)


def _positions(c: Any, x: Node, dim: int) -> Node:
    """The index along `dim`, in a shape that broadcasts against x."""
    shape = tuple(size if i == dim else 1 for i, size in enumerate(x.tensor.shape))
    return c.iota(dim, x.tensor.like(shape=shape))


@rule("tril.default")
def tril(c: Any, x: Node, diagonal: Any = 0) -> Node:
    return _triangle(c, "le", x, diagonal)


@rule("triu.default")
def triu(c: Any, x: Node, diagonal: Any = 0) -> Node:
    return _triangle(c, "ge", x, diagonal)


def _triangle(c: Any, comparison: str, x: Node, diagonal: Any) -> Node:
    """Keep where column - row <= (tril) or >= (triu) diagonal."""
    rank = x.tensor.rank
    row, column = _positions(c, x, rank - 2), _positions(c, x, rank - 1)
    keep = c.pointwise(comparison, c.sub(column, row), diagonal)
    return c.where(keep, x, c.full(0, x.tensor.like(shape=())))
