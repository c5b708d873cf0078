"""Give half-precision matrix products rows that start at 16 bytes: tensor cores read and write nothing else at speed.

In, out: a Graph. A product whose result has rows of 50257 elements writes them 50264 apart, into a buffer that is made
so, and an operand with such rows is laid out so where it is computed. Who asked for other strides gets a copy
(prepare.py); kernels read the buffer as it is. cuBLAS's kernels for odd rows reach a seventh of the others' speed on an
H100 (GPT-2's 4096 × 768 × 50257: 3.3 ms, 0.44 ms padded).

Only for graphs on a GPU. Inductor pads operands by copies for the same reason (torch/_inductor/fx_passes/pad_mm.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.rewrite import keep
from .prepare import copy_of

ALIGNMENT = 8
"""Elements: 16 bytes of a half type."""

WORTHWHILE = 256
"""Rows, columns and terms from which the product costs more than a copy."""

_PRODUCTS = {torch.ops.aten.mm.default: 0, torch.ops.aten.addmm.default: 1}
"""Target → the place of its first factor."""


def pad_products(graph: Graph) -> Graph:
    """See the module's docstring."""
    copies: dict[Node, Node] = {}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        first = _PRODUCTS.get(node.attrs.get("target")) if node.op == "extern" else None
        if first is None or not _is_worthwhile(new, args[first], args[first + 1]):
            return new
        factors = tuple(_aligned(factor, copies) for factor in args[first : first + 2])
        return _with_aligned_rows(keep(new, (*args[:first], *factors, *args[first + 2 :])))

    return graph.rewrite(rule)


def _is_worthwhile(node: Node, a: Any, b: Any) -> bool:
    if not all(isinstance(factor, Node) and factor.tensor.rank == 2 for factor in (a, b)):
        return False
    sizes = (*a.tensor.shape, b.tensor.shape[1])
    half = node.tensor.dtype in (torch.float16, torch.bfloat16)
    return half and all(isinstance(size, int) and size >= WORTHWHILE for size in sizes)


def _padded(strides: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The strides of a matrix with its rows (or columns) further apart; None if they start at 16 bytes already."""
    if sorted(strides)[0] != 1 or max(strides) % ALIGNMENT == 0:
        return None
    return tuple(1 if stride == 1 else -(-stride // ALIGNMENT) * ALIGNMENT for stride in strides)


def _with_aligned_rows(node: Node) -> Node:
    """The product into a padded buffer, seen with the strides it had."""
    strides = _padded(node.tensor.strides)
    if strides is None:
        return node
    type = node.tensor.like(shape=node.tensor.shape, strides=strides)
    padded = replace(node, type=type, attrs={**node.attrs, "into": True})
    return Node("reshape", (padded,), {}, node.type, node.origin)


def _aligned(factor: Node, copies: dict[Node, Node]) -> Node:
    """The factor with its rows at 16 bytes; a matrix and its transpose share one copy."""
    strides = _padded(factor.tensor.strides)
    if strides is None:
        return factor
    if factor.op == "permute" and factor.args[0].tensor.rank == 2:
        source = _aligned(factor.args[0], copies)
        return replace(keep(factor, (source,)), type=factor.tensor.like(shape=factor.tensor.shape, strides=strides))
    if factor not in copies:
        copies[factor] = copy_of(factor, strides)
    return copies[factor]
