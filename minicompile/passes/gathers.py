"""Gather the operands instead of the result: a loss that picks one logit a row need not write the whole log-softmax.

In, out: a Graph. `gather(f(x, expand(r)), i)` becomes `f(gather(x, i), expand(r))` where f is a short chain of cheap
pointwise ops over tensors that are in memory anyhow, r has size 1 in the gathered dimensions, and much less is gathered
than there is, or f is next to nothing (the negated half of a rotary embedding). f(0) need not be 0: of a masked gather
the result is masked again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.graph import Graph, Node
from ..ir.ops import GATHER, POINTWISE, VIEWS
from ..ir.rewrite import keep
from ..ir.types import view_strides

IN_MEMORY = ("input", "constant", "extern", "getitem")
"""Gathering from these costs no store."""

MAX_COST = 16
"""What is computed anew for each gathered element, at most: one exp, or a few additions."""

FREE_COST = 2
"""What is computed anew however much is gathered."""

LESS = 8
"""How many times fewer elements must be gathered than there are."""


def run(graph: Graph) -> Graph:
    """See the module's docstring."""

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        if new.op != GATHER or _costs_more(new.args[0], MAX_COST if _is_small_part(new) else FREE_COST):
            return new
        sunk = _sunk(new, new.args[0])
        if sunk is None:
            return new
        if new.attrs["masked"]:
            return Node("where", (new.args[-1], sunk, 0), {}, new.tensor, new.origin)
        return replace(sunk, type=new.tensor)  # an output keeps its strides

    return graph.rewrite(rule)


def _in_memory(node: Node) -> bool:
    """Whether a gather can read the node, or the view that it is of something, where it lies."""
    while node.op in VIEWS and not (node.op == "reshape" and _copies(node)):
        node = node.args[0]
    return node.op in IN_MEMORY


def _copies(reshape: Node) -> bool:
    """Whether a reshape is no view of what its argument's strides say (of a projection to heads, it is)."""
    source = reshape.args[0].tensor
    return view_strides(source.shape, source.strides, reshape.tensor.shape) is None


def _is_small_part(node: Node) -> bool:
    here, there = node.tensor.numel, node.args[0].tensor.numel
    return isinstance(here, int) and isinstance(there, int) and here * LESS <= there


def _costs_more(node: Node, limit: int) -> bool:
    """Whether the chain of pointwise ops that ends in the node costs more than `limit`, each as often as it is read."""
    stack: list[Any] = [node]
    cost = 0
    while stack and cost <= limit:
        current = stack.pop()
        if isinstance(current, Node) and current.op in (*POINTWISE, "cast"):
            cost += POINTWISE[current.op].cost if current.op in POINTWISE else 1
            stack.extend(current.args)
    return cost > limit


def _sunk(gather: Node, source: Node) -> Node | None:
    """What `gather` yields if it reads `source`, computed from gathered operands; None where that won't do."""
    if source.op not in (*POINTWISE, "cast"):
        return None
    args = [_operand(gather, arg) if isinstance(arg, Node) else arg for arg in source.args]
    if any(arg is None for arg in args):
        return None
    return replace(source, args=tuple(args), type=source.tensor.like(shape=gather.tensor.shape), origin=gather.origin)


def _operand(gather: Node, node: Node) -> Node | None:
    shape = gather.tensor.shape
    row = _row_value(gather, node) if node.op == "expand" else None
    if row is not None:
        return row
    if _in_memory(node):
        type = node.tensor.like(shape=shape)
        return replace(gather, args=(node, *gather.args[1:]), type=type)
    return _sunk(gather, node)


def _row_value(gather: Node, node: Node) -> Node | None:
    """An expanded operand: the same wherever in the gathered dimensions it is read."""
    base, shape = node.args[0], gather.tensor.shape
    if any(base.tensor.shape[dim] != 1 for dim in gather.attrs["dims"]):
        return None
    if base.tensor.shape == shape:
        return base
    strides = tuple(
        0 if size == 1 and wide != 1 else stride
        for size, wide, stride in zip(base.tensor.shape, shape, base.tensor.strides, strict=True)
    )
    return replace(node, type=base.tensor.like(shape=shape, strides=strides))
