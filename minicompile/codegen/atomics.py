"""Sums by index on a GPU: index_add, scatter_add of whole rows, index_put that accumulates, embeddings' gradients.

In, out: a Graph; the extern calls of these operators have a `SumByIndex` for their target, which adds rows atomically
(triton_atomics.py) where that is known to be faster than ATen's kernel, and calls ATen otherwise: an index for each
element (as fast there), half types (where atomic sums are rounded at each step), strides that are not contiguous, and
whenever `torch.use_deterministic_algorithms` is on. Zeros that are added to are made by the call itself.

ATen sorts the indices of index_put and embeddings, and adds rows in that order: several launches, and the same bits on
each run. Inductor adds atomically there too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..ir.called_operators import CalledOperator
from ..ir.graph import Graph, Node
from ..ir.rewrite import keep

_aten = torch.ops.aten

DTYPES = (torch.float32, torch.float64)
INDICES = (torch.int64, torch.int32)

SHORT = 3072
"""Indices up to which ATen's gradient of an embedding does not sort."""

LARGE = 1 << 26
"""Elements of an embedding in a half type from which its sum in float32 costs more than ATen's sorting."""


@dataclass(frozen=True)
class Rows:
    """`source`, rows along `dim`, is to be added to `base` at the places that `index` names."""

    base: Tensor
    dim: int
    index: Tensor
    source: Tensor
    wraps: bool = False


def use_atomics(graph: Graph) -> Graph:
    """See the module's docstring."""

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        target = new.attrs.get("target") if new.op == "extern" else None
        if target not in ROWS and target is not _EMBEDDING or not _is_on_gpu(new):
            return new
        args = new.args
        if target in ROWS and _are_zeros(args[0], like=args[_place_of_rows(target)]):
            args = (args[0].tensor.shape, *args[1:])
        return Node("extern", args, {**new.attrs, "target": SumByIndex(target)}, new.type, new.origin)

    return graph.rewrite(rule)


def _is_on_gpu(node: Node) -> bool:
    return node.tensor.device.type == "cuda"


def _place_of_rows(target: Any) -> int:
    """The place of what is added among an operator's arguments."""
    return 2 if target is _aten.index_put.default else 3


def _are_zeros(node: Node, like: Node) -> bool:
    """Whether a node is zeros of known sizes that `like.new_zeros` makes."""
    ours, theirs = node.tensor, like.tensor
    if node.op != "full" or node.args[0] != 0 or (ours.dtype, ours.device) != (theirs.dtype, theirs.device):
        return False
    return ours.is_contiguous and all(isinstance(size, int) for size in ours.shape)


class SumByIndex(CalledOperator):
    """The operator, by atomic additions where that pays. A shape in place of what is added to means zeros."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        if self.op is _EMBEDDING:
            return _embedding_gradient(*args, **kwargs)
        own = isinstance(args[0], tuple)
        if own:
            args = (args[_place_of_rows(self.op)].new_zeros(args[0]), *args[1:])
        rows = ROWS[self.op](*args, **kwargs)
        if rows is None or not _pays(rows):
            return self.op(*args, **kwargs)
        return _added(rows, rows.base if own else rows.base.clone())


def _pays(rows: Rows) -> bool:
    base, source = rows.base, rows.source
    if torch.are_deterministic_algorithms_enabled() or not base.is_contiguous() or base.numel() == 0:
        return False
    if not rows.index.device == source.device == base.device:
        return False
    fits = rows.index.dtype in INDICES and rows.index.numel() == source.shape[rows.dim]
    return fits and base.dtype in DTYPES and source.dtype is base.dtype


def _added(rows: Rows, result: Tensor, skipped: int = -1) -> Tensor:
    from .triton_atomics import add_rows

    if rows.source.numel():
        add_rows(result, rows.dim, rows.index, rows.source.contiguous(), rows.wraps, skipped)
    return result


# --- operators → rows -------------------------------------------------------------------------------------------------


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Rows | None:
    if alpha != 1 or x.dim() == 0 or source.dim() != x.dim():
        return None
    return Rows(x, dim % x.dim(), index.reshape(-1), source)


def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Rows | None:
    """Where the index is one of whole rows, expanded."""
    if x.dim() < 2 or index.shape != source.shape:
        return None
    dim %= x.dim()
    others = [d for d in range(x.dim()) if d != dim]
    if any(index.stride(d) != 0 and index.shape[d] > 1 or index.shape[d] != x.shape[d] for d in others):
        return None
    if source.numel() == 0 or max(index.shape[d] for d in others) == 1:
        return None
    for d in reversed(others):
        index = index.select(d, 0)
    return Rows(x, dim, index, source)


def _index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Rows | None:
    places = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not accumulate or len(places) != 1 or places[0][1].dtype not in INDICES:
        return None
    (dim, index) = places[0]
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    values = values.expand((*before, *index.shape, *after)).reshape((*before, index.numel(), *after))
    return Rows(x, dim, index.reshape(-1), values, wraps=True)


ROWS: Mapping[Any, Callable[..., Rows | None]] = {
    _aten.index_add.default: _index_add,
    _aten.scatter_add.default: _scatter_add,
    _aten.index_put.default: _index_put,
}

_EMBEDDING = _aten.embedding_dense_backward.default


def _embedding_gradient(grad: Tensor, indices: Tensor, size: Any, padding: Any, by_frequency: bool) -> Tensor:
    """The sum of a half type is made in float32, as ATen's is."""
    width = grad.shape[-1] if grad.dim() else 1
    is_wide, elements = grad.dtype in DTYPES, size * width
    pays = elements != 0 and (is_wide or indices.numel() > SHORT and elements <= LARGE)
    if by_frequency or not pays or torch.are_deterministic_algorithms_enabled() or indices.dtype not in INDICES:
        return _EMBEDDING(grad, indices, size, padding, by_frequency)
    zeros = grad.new_zeros((size, width), dtype=grad.dtype if is_wide else torch.float32)
    rows = Rows(zeros, 0, indices.reshape(-1), grad.reshape(indices.numel(), width))
    return _added(rows, zeros, padding).to(grad.dtype)
