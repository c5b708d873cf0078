"""Cut long reductions of few results in two, so that a GPU has enough programs to run.

In, out: a Graph. `sum(x, all of 64M)` becomes `sum(sum(x as 1024 × 64K, 1), 0)`: the first half runs as 1024 programs,
each over a piece of memory of its own, the second over what they left. Which elements are joined in which order depends
on the shapes only, so results are the same on every run.

A variance, `sum((x - sum(x)/n)²)`, would read its operand twice, the second time once all programs are done. It is cut
into pieces that stay in registers, each with a mean and a sum of squares of its own, which are joined by Chan's formula
("Updating formulae and a pairwise algorithm for computing sample variances", 1979): one pass over memory.

Only for graphs on a GPU: the CPU's kernels divide one long row among threads themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..ir.graph import Graph, Node
from ..ir.ops import REDUCTIONS
from ..ir.rewrite import dense_node, keep
from .triton_shape import PERSISTENT
from .variances import Variance, variances

PROGRAMS = 1024
"""First halves that are wanted, where results do not lie side by side; a piece of a row each."""

TILES = 256
"""First halves that are wanted, where they do; a tile of 128 columns each."""

LONG = 1 << 15
"""A row that one program reads in less time than a second kernel takes to start is left whole."""


def split_reductions(graph: Graph) -> Graph:
    """See the module's docstring."""
    found = variances(graph)
    sums = {variance.total for variance in found.values()}
    new_sums: dict[Node, _Halves] = {}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        if node.op not in REDUCTIONS:
            return new
        variance = found.get(node)
        if variance is not None and variance.total in new_sums:
            return new_sums[variance.total].variance(new, variance)
        cut = _cut_of(new, for_variance=node in sums)
        if cut is None:
            return new
        halves = _Halves(new, cut)
        if node in sums:
            new_sums[node] = halves
        return halves.whole()

    return graph.rewrite(rule)


@dataclass(frozen=True)
class Cut:
    """How a reduction is cut: its operand's shape, what the first half reduces of it, what the second."""

    shape: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


def _cut_of(node: Node, *, for_variance: bool) -> Cut | None:
    """The cut of a reduction, or None if it is better left whole."""
    x: Node = node.args[0]
    shape, dims = x.tensor.shape, node.attrs["dims"]
    if not all(isinstance(size, int) for size in shape) or x.tensor.numel == 0:
        return None
    results, length = node.tensor.numel, x.tensor.numel // node.tensor.numel
    if _lies_across(x, dims):
        wanted = min(-(-TILES * 128 // results), length // 64)
    else:
        wanted = min(-(-PROGRAMS // results), length // 1024) if length >= LONG and results < PROGRAMS // 4 else 1
        if for_variance and wanted > 1:
            wanted = max(wanted, -(-length // PERSISTENT))
    return _cut(shape, dims, wanted, finer=for_variance) if wanted > 1 else None


def _lies_across(x: Node, dims: tuple[int, ...]) -> bool:
    """Whether results lie side by side in memory: the innermost dimension is not reduced."""
    inner = [d for d, size in enumerate(x.tensor.shape) if size != 1]
    order = sorted(inner, key=lambda d: x.tensor.strides[d] or 1 << 60)
    return bool(order) and order[0] not in dims


def _cut(shape: tuple[int, ...], dims: tuple[int, ...], wanted: int, *, finer: bool) -> Cut | None:
    """Give the outermost reduced dimensions to the second half, `wanted` elements of them or what comes near (`finer`:
    rather more than fewer)."""
    outer: list[int] = []
    parts = 1
    for dim in dims:
        size = shape[dim]
        if parts * size > 2 * wanted:
            factor = _divisor_near(size, max(wanted // parts, 1))
            if factor * parts * 4 < wanted or factor == 1 and parts == 1:
                return None
            return _cut_inside(shape, dims, outer, dim, factor)
        outer.append(dim)
        parts *= size
        if parts * (1 if finer else 2) > wanted:
            break
    inner = tuple(dim for dim in dims if dim not in outer)
    return Cut(shape, inner, tuple(outer)) if inner else None


def _divisor_near(size: int, wanted: int) -> int:
    """The divisor of `size` nearest to `wanted` from below, or a little above."""
    return max((d for d in range(1, min(size, 2 * wanted) + 1) if size % d == 0), default=1)


def _cut_inside(shape: tuple[int, ...], dims: tuple[int, ...], outer: list[int], cut: int, factor: int) -> Cut:
    """`outer` is the second half's, and dimension `cut`, reshaped to (factor, rest) unless the factor is 1, both's."""
    if factor == 1:
        return Cut(shape, tuple(dim for dim in dims if dim not in outer), tuple(outer))
    moved = {dim: dim + (dim > cut) for dim in dims}
    first = (cut + 1, *(moved[dim] for dim in dims if dim not in outer and dim != cut))
    second = (*(moved[dim] for dim in outer), cut)
    reshaped = (*shape[:cut], factor, shape[cut] // factor, *shape[cut + 1 :])
    return Cut(reshaped, tuple(sorted(first)), tuple(sorted(second)))


class _Halves:
    """The nodes of a reduction that is cut."""

    def __init__(self, node: Node, cut: Cut) -> None:
        self.node, self.cut = node, cut
        self.partial = self._reduced(node, self._operand(node.args[0]), cut.first)
        self.joined = self._reduced(node, self.partial, cut.second)

    def whole(self) -> Node:
        return self._finished(self.joined, self.node)

    def variance(self, node: Node, variance: Variance) -> Node:
        """The sum of squares `node` of the operand less its mean, for `self` the sum that the mean is made of."""
        square, centred = node.args[0], node.args[0].args[0]
        x = self._operand(self.node.args[0])
        size = float(x.tensor.numel // self.partial.tensor.numel)
        own_mean = _pointwise("div", variance.mean, self.partial, size)
        mean = _pointwise("div", variance.mean, self.joined, variance.mean.args[1])
        from_own_mean = _pointwise("sub", centred, x, own_mean)
        within = self._reduced(node, _pointwise("mul", square, from_own_mean, from_own_mean), self.cut.first)
        shift = _pointwise("sub", centred, own_mean, mean)
        between = _pointwise("mul", square, _pointwise("mul", square, shift, shift), size)
        # Summed apart: added to `within` first, it would tie the pieces' kernel to the mean of all.
        joined = (self._reduced(node, part, self.cut.second) for part in (within, between))
        return self._finished(_pointwise("add", square, *joined), node)

    def _operand(self, x: Node) -> Node:
        if self.cut.shape == x.tensor.shape:
            return x
        return dense_node("reshape", (x,), self.cut.shape, self.node, dtype=x.tensor.dtype)

    def _finished(self, whole: Node, like: Node) -> Node:
        if whole.tensor.shape == like.tensor.shape:
            return whole
        return replace(dense_node("reshape", (whole,), like.tensor.shape, like), type=like.type)

    @staticmethod
    def _reduced(node: Node, x: Node, dims: tuple[int, ...]) -> Node:
        shape = [1 if dim in dims else size for dim, size in enumerate(x.tensor.shape)]
        return dense_node(node.op, (x,), shape, node, {**node.attrs, "dims": dims}, x.tensor.dtype)


def _pointwise(op: str, like: Node, *args: Any) -> Node:
    """A node of the first operand's shape, to which the others are expanded; with the origin of `like`."""
    shape = args[0].tensor.shape
    operands = tuple(_expanded(arg, shape) if isinstance(arg, Node) else arg for arg in args)
    return dense_node(op, operands, shape, like, dtype=args[0].tensor.dtype)


def _expanded(x: Node, shape: tuple[int, ...]) -> Node:
    if x.tensor.shape == shape:
        return x
    old = zip(x.tensor.shape, x.tensor.strides, strict=True)
    strides = tuple(stride if size == new else 0 for (size, stride), new in zip(old, shape, strict=True))
    return replace(dense_node("expand", (x,), shape, x), type=x.tensor.like(shape=shape, strides=strides))
