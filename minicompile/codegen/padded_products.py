"""Pad half-precision matrix products to multiples of eight: tensor cores read and write nothing else at speed.

In, out: a Graph. Factors get further rows and columns, of zeros, and their rows start at 16 bytes; the result is cut to
its size again, which costs a copy only where it leaves the graph with odd rows: kernels read it as it is. cuBLAS's
kernels for odd sizes reach a seventh of the others' speed on an H100 (GPT-2's 4096 × 768 × 50257: 3.3 ms, 0.44 ms
padded), also where only the rows are padded and the size stays odd.

Only for graphs on a GPU. Inductor does the same (torch/_inductor/fx_passes/pad_mm.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import GATHER
from ..ir.rewrite import copy_of, dense_node, keep

ALIGNMENT = 8
"""Elements: 16 bytes of a half type."""

WORTHWHILE = 256
"""Rows, columns and terms from which the product costs more than copies of its factors."""

_PRODUCTS = {torch.ops.aten.mm.default: 0, torch.ops.aten.addmm.default: 1}
"""Target → the place of its first factor."""

Copies = dict[tuple[Node, tuple[int, ...]], Node]
"""(matrix, padded shape) → the matrix padded; products share it."""


def pad_products(graph: Graph) -> Graph:
    """See the module's docstring."""
    copies: Copies = {}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        first = _PRODUCTS.get(node.attrs.get("target")) if node.op == "extern" else None
        if first is None or not _is_worthwhile(new, args[first], args[first + 1]):
            return new
        return _padded_product(new, args, first, copies)

    return graph.rewrite(rule)


def _is_worthwhile(node: Node, a: Any, b: Any) -> bool:
    if not all(isinstance(factor, Node) and factor.tensor.rank == 2 for factor in (a, b)):
        return False
    sizes = (*a.tensor.shape, b.tensor.shape[1])
    half = node.tensor.dtype in (torch.float16, torch.bfloat16)
    return half and all(isinstance(size, int) and size >= WORTHWHILE for size in sizes)


def _padded_product(node: Node, args: tuple[Any, ...], first: int, copies: Copies) -> Node:
    a, b = args[first : first + 2]
    (rows, terms), columns = map(_up, a.tensor.shape), _up(b.tensor.shape[1])
    factors = (_padded(a, (rows, terms), copies), _padded(b, (terms, columns), copies))
    if (rows, columns) == node.tensor.shape:
        return keep(node, (*args[:first], *factors, *args[first + 2 :]))
    if first:
        if not isinstance(bias := args[0], Node) or bias.tensor.rank != 1:
            return node
        args = (_grown(bias, 0, columns), *args[1:])
    product = dense_node("extern", (*args[:first], *factors, *args[first + 2 :]), (rows, columns), node, node.attrs)
    for dim, size in enumerate(node.tensor.shape):
        shape = tuple(size if d == dim else old for d, old in enumerate(product.tensor.shape))
        if shape != product.tensor.shape:
            product = dense_node("slice", (product,), shape, node, {"dim": dim, "start": 0, "step": 1})
    return replace(product, type=node.type)


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(factor: Node, shape: tuple[int, int], copies: Copies) -> Node:
    """The factor with that shape and rows (or columns) at 16 bytes; a matrix and its transpose share the copy."""
    if factor.op == "permute" and factor.args[0].tensor.rank == 2:
        source = _padded(factor.args[0], shape[::-1], copies)
        if source is factor.args[0]:
            return factor
        type = source.tensor.like(shape=shape, strides=source.tensor.strides[::-1])
        return replace(keep(factor, (source,)), type=type)
    is_aligned = 1 in factor.tensor.strides and max(factor.tensor.strides) % ALIGNMENT == 0
    if factor.tensor.shape == shape and is_aligned:
        return factor
    if (factor, shape) not in copies:
        grown = factor
        for dim, size in enumerate(shape):
            grown = _grown(grown, dim, size)
        copies[factor, shape] = copy_of(factor) if grown is factor else grown
    return copies[factor, shape]


def _grown(x: Node, dim: int, size: int) -> Node:
    """The tensor with zeros behind it, up to a size."""
    old = x.tensor.shape[dim]
    if old == size:
        return x
    shape = tuple(size if d == dim else s for d, s in enumerate(x.tensor.shape))
    index = dense_node("iota", (), shape, x, {"dim": dim}, torch.int64)
    mask = dense_node("lt", (index, old), shape, x, dtype=torch.bool)
    return dense_node(GATHER, (x, index, mask), shape, x, {"dims": (dim,), "masked": True, "checked": ""})
