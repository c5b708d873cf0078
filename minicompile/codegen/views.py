"""Strided views: what a chain of views makes of a tensor that lies in memory.

In: a node's layout (shape and strides), then view nodes one after the other.
Out: a `StridedView`: per dimension a list of (size, stride) factors, and an offset, all in elements. A dimension with
more than one factor is one that no single stride describes (a reshape across a permutation); a kernel can still walk
it with finer axes, only a torch tensor cannot have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir.graph import Node
from ..ir.symbols import is_static
from ..ir.types import Dim, Shape, TensorType, contiguous_strides, is_dense
from .axes import NoCommonRefinement, regroup

Factor = tuple[Dim, Dim]


@dataclass(frozen=True)
class StridedView:
    """Per dimension its (size, stride) factors, outermost first and none of size 1; and the offset."""

    dims: tuple[tuple[Factor, ...], ...]
    offset: Dim = 0

    @property
    def strides(self) -> Shape | None:
        """One stride a dimension (0 for size 1), or None where no tensor can have this view: no single stride describes
        a dimension, or it is walked backwards."""
        if any(len(dim) > 1 or (dim and dim[0][1] < 0) == True for dim in self.dims):  # noqa: E712 (may be a relation)
            return None
        return tuple(dim[0][1] if dim else 0 for dim in self.dims)


def whole(shape: Sequence[Dim], strides: Sequence[Dim]) -> StridedView:
    """The view that a tensor is of itself."""
    return StridedView(
        tuple(() if size == 1 else ((size, stride),) for size, stride in zip(shape, strides, strict=True))
    )


def through(view: StridedView, node: Node) -> StridedView:
    """`view` of a node's argument → view of the node. Raises NoCommonRefinement where no factors describe it."""
    dims = view.dims
    if node.op == "permute":
        return StridedView(tuple(dims[dim] for dim in node.attrs["dims"]), view.offset)
    if node.op == "expand":
        pairs = zip(dims, node.tensor.shape, node.args[0].tensor.shape, strict=True)
        return StridedView(
            tuple(((new, 0),) if old == 1 and new != 1 else dim for dim, new, old in pairs), view.offset
        )
    if node.op == "reshape":
        return _reshaped(view, node.tensor.shape)
    if node.op == "slice":
        return _sliced(view, node)
    raise ValueError(f"{node.op} is not a view")


def _reshaped(view: StridedView, shape: Shape) -> StridedView:
    if any(size == 0 for size in shape):
        return whole(shape, contiguous_strides(shape))
    flat = merge([factor for dim in view.dims for factor in dim])
    if len(flat) == 1 and not all(map(is_static, (flat[0][0], *shape))):
        # One stride for all: it has any shape of as many elements, which need not follow from the expressions.
        return replace(whole(shape, [stride * flat[0][1] for stride in contiguous_strides(shape)]), offset=view.offset)
    return StridedView(tuple(map(merge, regroup(flat, shape, lambda f: f[0], _split))), view.offset)


def _split(factor: Factor, outer: Dim, inner: Dim) -> tuple[Factor, Factor]:
    return (outer, factor[1] * inner), (inner, factor[1])


def merge(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Join neighbours that one stride describes."""
    result: list[Factor] = []
    for size, stride in factors:
        if result and result[-1][1] == stride * size:
            size = result.pop()[0] * size
        result.append((size, stride))
    return tuple(result)


def _sliced(view: StridedView, node: Node) -> StridedView:
    dim, start, step = node.attrs["dim"], node.attrs["start"], node.attrs["step"]
    size = node.tensor.shape[dim]
    factors = view.dims[dim]
    if len(factors) > 1:
        raise NoCommonRefinement("a slice cuts through a dimension that several strides describe")
    stride = factors[0][1] if factors else 0
    new = () if size == 1 else ((size, stride * step),)
    return StridedView((*view.dims[:dim], new, *view.dims[dim + 1 :]), view.offset + start * stride)


def layout(type: TensorType) -> Shape:
    """The strides that a computed tensor gets: eager's where they are dense, else contiguous ones."""
    return type.strides if is_dense(type) else contiguous_strides(type.shape)


def same_strides(shape: Shape, one: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Whether two strides place the elements alike; dimensions of size 1 do not count."""
    return all(s == 1 or a == b for s, a, b in zip(shape, one, other, strict=True))
