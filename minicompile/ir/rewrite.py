"""Rebuilding graphs: the one walk that every pass shares, and the nodes that code generation adds.

In: a Graph and a rule that maps each node, with its arguments already rewritten, to its replacement.
Out: a new Graph that holds the nodes the replacements need, in a valid order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

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


def rewrite_graph(graph: Graph, rule: Rule) -> Graph:
    """Apply `rule` to every node in order. See `Graph.rewrite`."""
    value: dict[Node, Any] = {node: node for node in graph.inputs}
    order: dict[Node, None] = {}

    def place(result: Any) -> None:
        """Put a rule's result, and what it newly needs, into the order (operands first, without recursion)."""
        stack = [result]
        while stack:
            node = stack[-1]
            missing = [n for n in node.operands() if n not in order and n.op != "input"]
            if missing and node not in order:
                stack.extend(missing)
                continue
            order.setdefault(node)
            stack.pop()

    for node in graph.nodes:
        result = rule(node, substitute(node.args, value))
        value[node] = result
        if isinstance(result, Node) and result.op != "input":
            place(result)
    outputs = substitute_outputs(graph.outputs, value)
    writes = tuple((index, value[node]) for index, node in graph.writes)
    return replace(graph, nodes=tuple(order), outputs=outputs, writes=writes)


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
