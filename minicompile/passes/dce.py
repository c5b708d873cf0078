"""Dead code: nodes that no output, write or effect needs are dropped.

In, out: a Graph. Inputs stay, used or not: they are the calling convention.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Graph, Node
from ..walks import reachable


def run(graph: Graph) -> Graph:
    """The graph with its live nodes alone, in their order."""
    live = reachable(graph.roots(), Node.operands)
    return replace(graph, nodes=tuple(node for node in graph.nodes if node in live))
