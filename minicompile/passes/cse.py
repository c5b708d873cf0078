"""Common subexpressions: of nodes that compute the same, the first stays.

In, out: a Graph. Two nodes are the same if op, arguments, attributes and type are equal; arguments are compared after
their own merging, so whole equal trees collapse. `1`, `1.0` and `True`, and `0.0` and `-0.0`, are different arguments.
Calls with an effect are never merged: two dropouts are two masks.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.rewrite import keep


def run(graph: Graph) -> Graph:
    """The graph with one node for all that compute the same."""
    first: dict[Any, Node] = {}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        if node.attrs.get("effect"):
            return new
        return first.setdefault((new.op, key_of(new.args), key_of(dict(new.attrs)), new.type), new)

    return graph.rewrite(rule)


def key_of(value: Any) -> Any:
    """A hashable stand-in that is equal only for arguments that compute the same."""
    if isinstance(value, (tuple, list)):
        return tuple(map(key_of, value))
    if isinstance(value, dict):
        return tuple((name, key_of(item)) for name, item in sorted(value.items()))
    if isinstance(value, torch.Tensor):
        return id(value)  # a constant's tensor: equal only to itself
    if isinstance(value, (bool, int, float, complex)):
        return type(value), repr(value)
    return value
