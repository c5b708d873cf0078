"""Rebuilding graphs: the one walk that every pass shares, and the nodes that code generation adds.

In: a Graph and a rule that maps each node, with its arguments already rewritten, to its replacement.
Out: a new Graph that holds the nodes the replacements need, in a valid order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from ..walks import operands_first
from .graph import EMPTY, BufferView, Graph, InputView, Node
from .types import contiguous_strides

Rule = Callable[[Node, tuple[Any, ...]], Any]


def keep(node: Node, args: tuple[Any, ...]) -> Node:
    """The rule that changes nothing: the same node if its arguments are the same, else a copy over the new ones."""
    return node if args == node.args else replace(node, args=args)


def dense_node(
    op: str, args: tuple[Any, ...], shape: Sequence[Any], like: Node, attrs: Mapping[str, Any] = EMPTY,
    dtype: torch.dtype | None = None,
) -> Node:  # fmt: skip
    """A contiguous node of that shape; device, origin and, unless one is given, dtype are those of `like`."""
    shape = tuple(shape)
    type = like.tensor.like(shape=shape, strides=contiguous_strides(shape), dtype=dtype or like.tensor.dtype)
    return Node(op, args, attrs, type, like.origin)


def copy_of(node: Node, strides: Sequence[Any] | None = None) -> Node:
    """An identity cast: the node's values, stored with exactly the given strides (default: contiguous)."""
    strides = contiguous_strides(node.tensor.shape) if strides is None else tuple(strides)
    attrs = MappingProxyType({"dtype": node.tensor.dtype, "exact": True})
    return Node("cast", (node,), attrs, node.tensor.like(shape=node.tensor.shape, strides=strides), node.origin)


def rewrite_graph(graph: Graph, rule: Rule) -> Graph:
    """Apply `rule` to every node in order. See `Graph.rewrite`."""
    value: dict[Node, Any] = {node: node for node in graph.inputs}
    order: dict[Node, None] = {}

    def place(result: Any) -> None:
        """Put a rule's result, and what it newly needs, into the order."""
        for node in operands_first(result, missing):
            order.setdefault(node)

    def missing(node: Node) -> list[Node]:
        return [] if node in order else [n for n in node.operands() if n not in order and n.op != "input"]

    for node in graph.nodes:
        result = rule(node, substitute(node.args, value))
        value[node] = result
        if isinstance(result, Node) and result.op != "input":
            place(result)
    apart = _kept_apart(graph.outputs, value)
    for copy in apart.values():
        place(copy)
    outputs = substitute_outputs(graph.outputs, {**value, **apart})
    writes = tuple((index, value[node]) for index, node in graph.writes)
    return replace(graph, nodes=tuple(order), outputs=outputs, writes=writes)


def _kept_apart(outputs: tuple[Any, ...], value: dict[Node, Any]) -> dict[Node, Node]:
    """Buffers that have become another one's node (which computes the same), and the copies that stand for them: what
    a program does to outputs in the one memory must not be seen in the other."""
    first: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}
    for buffer in (out.buffer for out in outputs if isinstance(out, BufferView)):
        new = value[buffer]
        if first.setdefault(new, buffer) is not buffer and buffer not in copies:
            copies[buffer] = copy_of(new, new.tensor.strides)
    return copies


def substitute(value: Any, mapping: dict[Node, Any]) -> Any:
    """Replace Nodes in a (nested) argument structure."""
    if isinstance(value, Node):
        return mapping[value]
    if isinstance(value, (tuple, list)):
        return tuple(substitute(item, mapping) for item in value)
    return value


def substitute_outputs(outputs: tuple[Any, ...], mapping: dict[Node, Any]) -> tuple[Any, ...]:
    """The outputs over new nodes; a BufferView that stands twice stays one object."""
    views: dict[BufferView, BufferView] = {}

    def one(out: Any) -> Any:
        if isinstance(out, InputView):
            return out
        if isinstance(out, BufferView):
            return views.setdefault(out, replace(out, buffer=mapping[out.buffer]))
        return substitute(out, mapping)

    return tuple(map(one, outputs))
