"""Cut long reductions of few results in two, so that a GPU has enough programs to run.

In, out: a Graph. `sum(x, all of 64M)` becomes `sum(sum(x as 1024 × 64K, 1), 0)`: the first half runs as 1024 programs,
each over a piece of memory of its own, the second over what they left. Which elements are joined in which order depends
on the shapes only, so results are the same on every run.

Only for graphs on a GPU: the CPU's kernels divide one long row among threads themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.graph import Graph, Node
from ..ir.ops import REDUCTIONS
from ..ir.rewrite import keep
from ..ir.types import contiguous_strides

PROGRAMS = 1024
"""First halves that are wanted, where results do not lie side by side; a piece of a row each."""

TILES = 256
"""First halves that are wanted, where they do; a tile of 128 columns each."""

LONG = 1 << 15
"""A row that one program reads in less time than a second kernel takes to start is left whole."""


def split_reductions(graph: Graph) -> Graph:
    """See the module's docstring."""

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        return _split(new) if node.op in REDUCTIONS else new

    return graph.rewrite(rule)


def _split(node: Node) -> Node:
    x: Node = node.args[0]
    shape, dims = x.tensor.shape, node.attrs["dims"]
    if not all(isinstance(size, int) for size in shape) or x.tensor.numel == 0:
        return node
    results, length = node.tensor.numel, x.tensor.numel // node.tensor.numel
    if _lies_across(x, dims):
        wanted = min(-(-TILES * 128 // results), length // 64)
    else:
        wanted = min(-(-PROGRAMS // results), length // 1024) if length >= LONG and results < PROGRAMS // 4 else 1
    if wanted < 2:
        return node
    return _cut(node, x, dims, wanted)


def _lies_across(x: Node, dims: tuple[int, ...]) -> bool:
    """Whether results lie side by side in memory: the innermost dimension is not reduced."""
    inner = [d for d, size in enumerate(x.tensor.shape) if size != 1]
    order = sorted(inner, key=lambda d: x.tensor.strides[d] or 1 << 60)
    return bool(order) and order[0] not in dims


def _cut(node: Node, x: Node, dims: tuple[int, ...], wanted: int) -> Node:
    """Give the outermost reduced dimensions to the second half, `wanted` elements of them or what comes near."""
    outer: list[int] = []
    parts = 1
    for dim in dims:
        size = x.tensor.shape[dim]
        if parts * size > 2 * wanted:
            factor = _divisor_near(size, max(wanted // parts, 1))
            if factor * parts * 4 < wanted or factor == 1 and parts == 1:
                return node
            return _halves(node, x, dims, outer, dim, factor)
        outer.append(dim)
        parts *= size
        if parts * 2 > wanted:
            break
    return _halves(node, x, dims, outer, -1, 1) if len(outer) < len(dims) else node


def _divisor_near(size: int, wanted: int) -> int:
    """The divisor of `size` nearest to `wanted` from below, or a little above."""
    return max((d for d in range(1, min(size, 2 * wanted) + 1) if size % d == 0), default=1)


def _halves(node: Node, x: Node, dims: tuple[int, ...], outer: list[int], cut: int, factor: int) -> Node:
    """The two reductions; dimension `cut` is first reshaped to (factor, rest), unless the factor is 1."""
    shape = list(x.tensor.shape)
    if factor > 1:
        shape[cut : cut + 1] = [factor, shape[cut] // factor]
        x = _node("reshape", x, shape, node)
        shift = {dim: dim + (dim > cut) for dim in range(node.tensor.rank)}
        second = (*(shift[dim] for dim in outer), cut)
        first = (cut + 1, *(shift[dim] for dim in dims if dim not in outer and dim != cut))
    else:
        second, first = tuple(outer), tuple(dim for dim in dims if dim not in outer)
    partial = _reduced(node, x, tuple(sorted(first)))
    whole = _reduced(node, partial, tuple(sorted(second)))
    return whole if factor == 1 else replace(_node("reshape", whole, node.tensor.shape, node), type=node.type)


def _reduced(node: Node, x: Node, dims: tuple[int, ...]) -> Node:
    shape = [1 if dim in dims else size for dim, size in enumerate(x.tensor.shape)]
    return replace(_node(node.op, x, shape, node), attrs={**node.attrs, "dims": dims})


def _node(op: str, x: Node, shape: Any, like: Node) -> Node:
    shape = tuple(shape)
    type = like.tensor.like(shape=shape, strides=contiguous_strides(shape), dtype=x.tensor.dtype)
    return Node(op, (x,), {}, type, like.origin)
