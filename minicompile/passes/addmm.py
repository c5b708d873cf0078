"""A matrix product with something added is one call of ATen's addmm.

In, out: a Graph. `mm(a, b) + bias` becomes `addmm(bias, a, b)` where nothing else reads the product, and where the sum
is not read by a kernel, which would have computed it in passing. Only in dtypes that are not rounded in between: half
precision would be rounded once where eager rounds twice.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import is_compute
from ..ir.rewrite import keep

_MM = torch.ops.aten.mm.default
_ADDMM = torch.ops.aten.addmm.default
_DTYPES = (torch.float32, torch.float64)


def run(graph: Graph) -> Graph:
    """A sum with a product that nothing else reads becomes addmm, where no kernel computes it in passing."""
    users = graph.users()
    alone = _read_once(graph, users)
    fusible = {node for node in users if any(is_compute(user.op) for user in _readers(node, users))}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        if node.op != "add" or node in fusible or node.tensor.dtype not in _DTYPES:
            return new
        for old, product, bias in ((node.args[0], *args), (node.args[1], *reversed(args))):
            if _is_product(product) and isinstance(old, Node) and old in alone and isinstance(bias, Node):
                if bias is not product and product.tensor.strides == node.tensor.strides:
                    return _addmm(node, product, bias)
        return new

    return graph.rewrite(rule)


def _read_once(graph: Graph, users: dict[Node, list[Node]]) -> set[Node]:
    roots = set(graph.roots())
    return {node for node, readers in users.items() if len(readers) == 1 and node not in roots}


def _readers(node: Node, users: dict[Node, list[Node]]) -> list[Node]:
    """Who reads the node, through views too."""
    found: list[Node] = []
    stack = list(users[node])
    while stack:
        user = stack.pop()
        found.append(user)
        if user.op in ("reshape", "permute", "expand", "slice"):
            stack.extend(users[user])
    return found


def _is_product(value: Any) -> bool:
    return isinstance(value, Node) and value.op == "extern" and value.attrs["target"] is _MM


def _addmm(node: Node, product: Node, bias: Node) -> Node:
    while bias.op == "expand":
        bias = bias.args[0]  # ATen broadcasts
    attrs = {"target": _ADDMM, "kwargs": {}, "keywords": ()}
    return Node("extern", (bias, *product.args), attrs, node.tensor, node.origin)
