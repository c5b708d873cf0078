"""Attention written by hand becomes ATen's fused attention, which never writes the matrix of weights to memory.

In, out: a Graph. Matched, in float32 (half precision would be rounded in other places): `bmm(softmax(scale * bmm(q,
kᵀ)), v)` with reshapes in between, the softmax over the last dimension, every step read by the next one only. A mask is
not matched: a row that is masked wholly is NaN written by hand, and zero in the fused operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.rewrite import keep
from ..ir.types import TensorType, contiguous_strides

_BMM = torch.ops.aten.bmm.default
_FUSED = torch.ops.aten.scaled_dot_product_attention.default

WORTHWHILE = 64 * 64
"""Weights of one head from which the fused operator pays for itself."""


def run(graph: Graph) -> Graph:
    """`softmax(scale * q @ k) @ v` without a mask becomes one call, where that pays."""
    matcher = _Matcher(graph)
    value: dict[Node, Node] = {node: node for node in graph.inputs}

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        match = matcher.attention(node)
        if match is None:
            value[node] = keep(node, args)
        else:
            q, k_transposed, scale = match
            value[node] = _fused(node, value[q], value[k_transposed], args[1], scale)
        return value[node]

    return graph.rewrite(rule)


class _Matcher:
    def __init__(self, graph: Graph) -> None:
        self.users: Mapping[Node, list[Node]] = graph.users()
        self.roots = set(graph.roots())

    def attention(self, node: Node) -> tuple[Node, Node, float] | None:
        """(q, kᵀ, scale) of the product of weights and values that `node` is, if it is one."""
        type = node.type
        if not _is_bmm(node) or not isinstance(type, TensorType) or type.dtype is not torch.float32:
            return None
        if not (type.is_contiguous and type.is_static):
            return None
        weights = self._plain(node.args[0])
        scores = self._softmax(weights) if weights is not None else None
        if scores is None:
            return None
        unscaled, scale = self._scale(scores)
        product = self._plain(unscaled, 2 if unscaled is scores else 1)  # the softmax reads its argument twice
        if product is None or not _is_bmm(product) or not product.tensor.is_static:
            return None
        rows, columns = product.tensor.shape[1:]
        same = product.tensor.shape == node.args[0].tensor.shape
        return (product.args[0], product.args[1], scale) if same and rows * columns >= WORTHWHILE else None

    def _read_by(self, node: Node, count: int) -> bool:
        return node not in self.roots and len(self.users[node]) == count

    def _plain(self, node: Node, readers: int = 1) -> Node | None:
        """The node under reshapes that keep the last two dimensions, if nobody else reads any of them."""
        while self._read_by(node, readers):
            if node.op != "reshape":
                return node
            source, readers = node.args[0], 1
            if source.tensor.shape[-2:] != node.tensor.shape[-2:]:
                return None
            node = source
        return None

    def _softmax(self, node: Node) -> Node | None:
        """The argument of a softmax over the last dimension, as lowering writes it: exp(x - max) / sum."""
        if node.op != "div" or not self._read_by(node, 1):
            return None
        powers, total = node.args
        if not (isinstance(powers, Node) and isinstance(total, Node) and powers.op == "exp"):
            return None
        if not self._read_by(powers, 2) or self._row(total, "sum") is not powers or powers.args[0].op != "sub":
            return None
        x, largest = powers.args[0].args
        fits = isinstance(x, Node) and isinstance(largest, Node) and self._row(largest, "amax") is x
        return x if fits and self._read_by(x, 2) else None

    def _row(self, node: Node, op: str) -> Node | None:
        """x of `expand(op(x over the last dimension))`."""
        inner = node.args[0] if node.op == "expand" else node
        if inner.op != op or tuple(inner.attrs["dims"]) != (inner.tensor.rank - 1,):
            return None
        result: Node = inner.args[0]
        return result

    def _scale(self, node: Node) -> tuple[Node, float]:
        """The scores without a constant factor, and the factor."""
        constant = node.args[1] if node.op in ("mul", "div") and self._read_by(node.args[0], 1) else None
        if not isinstance(constant, (int, float)) or constant == 0:
            return node, 1.0
        return node.args[0], float(constant) if node.op == "mul" else 1.0 / constant


def _is_bmm(node: Node) -> bool:
    return node.op == "extern" and node.attrs["target"] is _BMM


def _fused(node: Node, q: Node, k_transposed: Node, v: Node, scale: float) -> Node:
    """The batch becomes the heads of one batch, which is how the fused kernels want it."""
    permuted = k_transposed.tensor
    shape, strides = ((t[0], t[2], t[1]) for t in (permuted.shape, permuted.strides))
    k = Node("permute", (k_transposed,), {"dims": (0, 2, 1)}, permuted.like(shape=shape, strides=strides), node.origin)
    operands = [_with_batch(operand) for operand in (q, k, v)]
    attrs = {"target": _FUSED, "kwargs": {"scale": scale}, "keywords": ()}
    result = Node("extern", tuple(operands), attrs, node.tensor.like(shape=(1, *node.tensor.shape)), node.origin)
    return Node("reshape", (result,), {}, node.tensor, node.origin)


def _with_batch(node: Node) -> Node:
    type = node.tensor
    strides = (contiguous_strides((1, *type.shape))[0], *type.strides)
    return Node("reshape", (node,), {}, type.like(shape=(1, *type.shape), strides=strides), node.origin)
