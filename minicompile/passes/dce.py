"""Dead code: nodes that no output, write or effect needs are dropped.

In, out: a Graph. Inputs stay, used or not: they are the calling convention.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, Node


def run(graph: Graph) -> Graph:
    live: set[Node] = set()
    stack = list(graph.roots())
    while stack:
        node = stack.pop()
        if node not in live:
            live.add(node)
            stack.extend(node.operands())
    return replace(graph, nodes=tuple(node for node in graph.nodes if node in live))
