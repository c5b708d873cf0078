"""Find variances, as lowering writes them (lowering/rules_reduction.py: variance_of).

In: a Graph. Out: each node `sum(c * c, dims)` where `c = x - sum(x, dims) / n`, with the nodes that it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir.graph import Graph, Node


@dataclass(frozen=True)
class Variance:
    """`total` is sum(x, dims), `mean` is total / n; both keep the reduced dimensions."""

    total: Node
    mean: Node


def variances(graph: Graph) -> dict[Node, Variance]:
    """The sums of squares in `graph` → what they are made of."""
    return {node: found for node in graph.nodes if (found := _variance(node)) is not None}


def _variance(node: Node) -> Variance | None:
    square = _operands(node, "sum", 1)
    factors = _operands(square[0], "mul", 2) if square else ()
    if not factors or factors[0] is not factors[1]:
        return None
    centred = _operands(factors[0], "sub", 2)
    expanded = _operands(centred[1], "expand", 1) if centred else ()
    mean = _operands(expanded[0], "div", 2) if expanded else ()
    total = _operands(mean[0], "sum", 1) if mean else ()
    if not total or total[0] is not centred[0] or mean[0].attrs["dims"] != node.attrs["dims"]:
        return None
    return Variance(mean[0], expanded[0])


def _operands(node: Any, op: str, count: int) -> tuple[Any, ...]:
    """The arguments of a node of that operation; empty for anything else."""
    return node.args if isinstance(node, Node) and node.op == op and len(node.args) == count else ()
