"""A bias that a kernel can add in passing is not added by the matrix product.

In, out: a Graph. `addmm(bias, a, b)` becomes `mm(a, b) + bias` where only kernels read the result: they then add the
bias while they read the product. ATen writes it to every row first, and reads that again to add the product: between
5 % (768 × 768) and 20 % (one row) of the call. Only on the CPU: cuBLAS adds it for nothing. The converse is addmm.py.
Half precision stays: the sum would be rounded in another place.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import VIEWS, is_compute
from ..ir.rewrite import keep

_MM = torch.ops.aten.mm.default
_ADDMM = torch.ops.aten.addmm.default
_DTYPES = (torch.float32, torch.float64)


def run(graph: Graph) -> Graph:
    """addmm of which only kernels read the result becomes mm, and an addition that they do."""
    users, roots = graph.users(), set(graph.roots())

    def only_kernels_read(node: Node) -> bool:
        stack, seen = [node], False
        while stack:
            current = stack.pop()
            if current in roots:
                return False
            for user in users[current]:
                if user.op in VIEWS:
                    stack.append(user)
                elif not is_compute(user.op):
                    return False
                else:
                    seen = True
        return seen

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        if _adds_bias(node) and only_kernels_read(node):
            return _split(node, *args)
        return keep(node, args)

    return graph.rewrite(rule)


def _adds_bias(node: Node) -> bool:
    """Whether the node is an addmm of a vector, with neither factor."""
    if node.op != "extern" or node.attrs["target"] is not _ADDMM or len(node.args) != 3 or node.attrs.get("kwargs"):
        return False
    bias = node.args[0]
    vector = isinstance(bias, Node) and bias.tensor.rank == 1 and bias.tensor.shape[0] == node.tensor.shape[1]
    type = node.tensor
    return vector and type.dtype in _DTYPES and type.is_contiguous and type.device.type == "cpu"


def _split(node: Node, bias: Node, a: Node, b: Node) -> Node:
    product = Node("extern", (a, b), {"target": _MM, "kwargs": {}, "keywords": ()}, node.tensor, node.origin)
    (size,), (stride,) = bias.tensor.shape, bias.tensor.strides
    row = Node("reshape", (bias,), {}, bias.tensor.like(shape=(1, size), strides=(size, stride)), node.origin)
    rows = Node("expand", (row,), {}, bias.tensor.like(shape=node.tensor.shape, strides=(0, stride)), node.origin)
    return Node("add", (product, rows), {}, node.tensor, node.origin)
