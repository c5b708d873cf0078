"""Attention masks that are constants: one that masks nothing goes, a causal one becomes the operator's own.

In, out: a Graph. Models build masks out of ranges and comparisons, on each call and for every shape. Where the bias of
an attention operator depends on no input, it is computed here, by the reference interpreter. Zeros everywhere: no bias.
Zero up to the diagonal and minus infinity beyond, over as many keys as queries: `is_causal`. With either, the fused
kernels read no bias, and skip half of the products under `is_causal`. Backward's operators are treated alike.

The least number that ATen puts in place of minus infinity when it turns a bool mask into a bias (-65504, or the
dtype's own least) counts as minus infinity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import CREATION, VIEWS, is_compute
from ..ir.reference import evaluate_node
from ..ir.rewrite import keep
from ..ir.types import TensorType
from ..walks import operands_first

_BIASES = ("attn_bias", "attn_mask")
_LIMIT = 1 << 25
"""Elements of one value that are worth computing at compile time: some tenths of a second."""

_MASKED = -65504.0
_CPU = torch.device("cpu")


def run(graph: Graph) -> Graph:
    """Attention calls whose mask is a constant lose it, or become causal."""
    if not any(map(_bias_name, graph.nodes)):
        return graph
    constants = _Constants(graph)

    def rule(node: Node, args: tuple[Any, ...]) -> Node:
        new = keep(node, args)
        name = _bias_name(node)
        if name is None or _keyword(node, "is_causal") is True:
            return new
        value = constants.value(_keyword(node, name))
        if value is None:
            return new
        if _masks_nothing(value):
            return _changed(new, {name: None})
        return _changed(new, {name: None, "is_causal": True}) if _is_causal(value, node) else new

    return graph.rewrite(rule)


# --- the operator -----------------------------------------------------------------------------------------------------


def _names(node: Node) -> list[str]:
    """The names of an extern call's arguments, by position."""
    schema = getattr(node.attrs["target"], "_schema", None)
    if schema is None or "scaled_dot_product" not in schema.name:
        return []
    return [argument.name for argument in schema.arguments]


def _bias_name(node: Node) -> str | None:
    """What the operator calls its bias; None where it has none, or cannot be causal."""
    names = _names(node) if node.op == "extern" else []
    return next((name for name in names if name in _BIASES), None) if "is_causal" in names else None


def _keyword(node: Node, name: str) -> Any:
    """The argument of that name, however it is passed; None where it is left out."""
    position, keywords = _names(node).index(name), node.attrs["keywords"]
    positional = len(node.args) - len(keywords)
    if position < positional:
        return node.args[position]
    return node.args[positional + keywords.index(name)] if name in keywords else node.attrs["kwargs"].get(name)


def _changed(node: Node, changes: dict[str, Any]) -> Node:
    """The call with other arguments, none of them Nodes."""
    names, keywords = _names(node), list(node.attrs["keywords"])
    positional = list(node.args[: len(node.args) - len(keywords)])
    nodes = dict(zip(keywords, node.args[len(positional) :], strict=True))
    kwargs = dict(node.attrs["kwargs"])
    for name, value in changes.items():
        position = names.index(name)
        nodes.pop(name, None)
        if position < len(positional):
            positional[position] = value
        else:
            kwargs[name] = value
    attrs = {**node.attrs, "kwargs": kwargs, "keywords": tuple(nodes)}
    return replace(node, args=(*positional, *nodes.values()), attrs=attrs)


# --- the bias ---------------------------------------------------------------------------------------------------------


def _masks_nothing(value: torch.Tensor) -> bool:
    return bool(value.all()) if value.dtype is torch.bool else bool((value == 0).all())


def _is_causal(value: torch.Tensor, node: Node) -> bool:
    """Whether the bias lets each of as many queries as keys see the keys up to its own."""
    names = _names(node)
    queries, keys = (node.args[names.index(name)].tensor.shape[-2] for name in ("query", "key"))
    if queries != keys or value.dim() < 2 or tuple(value.shape[-2:]) != (queries, keys):
        return False
    seen = torch.ones(queries, keys, dtype=torch.bool).tril()
    if value.dtype is torch.bool:
        return bool((value == seen).all())
    return bool((((value == 0) & seen) | ((value <= _MASKED) & ~seen)).all())


class _Constants:
    """The values of nodes that depend on no input."""

    def __init__(self, graph: Graph) -> None:
        self.is_constant: set[Node] = set()
        for node in graph.nodes:
            if self._may_compute(node) and all(operand in self.is_constant for operand in node.operands()):
                self.is_constant.add(node)
        self.values: dict[Node, torch.Tensor | None] = {}

    def _may_compute(self, node: Node) -> bool:
        if node.op not in (*VIEWS, *CREATION, "constant") and not is_compute(node.op):
            return False
        type = node.type
        return isinstance(type, TensorType) and type.is_static and type.numel <= _LIMIT

    def value(self, node: Node | None) -> torch.Tensor | None:
        """The value, on the CPU; None where there is none."""
        if node is None or node not in self.is_constant:
            return None
        if node not in self.values:
            try:
                self.values[node] = self._compute(node)
            except (IndexError, NotImplementedError):  # what eager raises, it raises when the graph runs
                self.values[node] = None
        return self.values[node]

    def _compute(self, root: Node) -> torch.Tensor:
        known: dict[Node, torch.Tensor] = {}
        for node in operands_first(root, lambda node: [n for n in node.operands() if n not in known]):
            if node not in known:
                known[node] = _evaluated(node, known)
        return known[root]


def _evaluated(node: Node, known: dict[Node, torch.Tensor]) -> torch.Tensor:
    if node.op == "constant":
        value: torch.Tensor = node.attrs["value"].to(_CPU)
        return value
    type = node.tensor
    here = replace(node, type=TensorType(type.dtype, type.shape, type.strides, _CPU))
    result: torch.Tensor = evaluate_node(here, known, {})
    return result
