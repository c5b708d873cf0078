"""Constant folding: what does not depend on an input is computed now.

In, out: a Graph. A *uniform* value (`full` and all that is computed from it element by element) is folded to one
`full`; as an operand of a pointwise op with tensors of other values it becomes a scalar argument. The arithmetic is
torch's own, in the dtype at hand, on one element, by the reference interpreter: what eager computes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..ir.graph import Graph, Node
from ..ir.ops import VIEWS, is_pointwise
from ..ir.reference import evaluate_node
from ..ir.rewrite import keep
from ..ir.types import TensorType, dtype_kind

_CPU = torch.device("cpu")


def run(graph: Graph) -> Graph:
    """Nodes of constants become constants."""
    return graph.rewrite(rule)


def rule(node: Node, args: tuple[Any, ...]) -> Node:
    """One node, over folded arguments."""
    tensors = [arg for arg in args if isinstance(arg, Node)]
    if node.op == "iota" and node.tensor.shape[node.attrs["dim"]] == 1:
        return full_of(node, 0)  # the only index there is
    if not tensors:
        return keep(node, args)
    if node.op in VIEWS and tensors[0].op == "full":
        return full_of(node, tensors[0].args[0])
    if is_pointwise(node.op):
        if all(map(is_uniform, args)):
            return _evaluate(node, args)
        return _scalar_operands(node, args)
    return keep(node, args)


def is_uniform(arg: Any) -> bool:
    """A Python scalar, or a `full` of one."""
    if isinstance(arg, Node):
        return arg.op == "full" and is_uniform(arg.args[0])
    return isinstance(arg, (bool, int, float))


def full_of(node: Node, value: Any) -> Node:
    """`full` in place of a node."""
    return Node("full", (value,), {}, node.tensor, node.origin)


def _evaluate(node: Node, args: tuple[Any, ...]) -> Node:
    """The op on one element, then `full` of the result."""
    element = TensorType(node.tensor.dtype, (), (), _CPU)
    scalars = tuple(_element(arg) for arg in args)
    values = {arg: torch.tensor(arg.args[0], dtype=arg.tensor.dtype) for arg in scalars if isinstance(arg, Node)}
    result = evaluate_node(replace(node, args=scalars, type=element), values, {})
    return full_of(node, result.item())


def _element(arg: Any) -> Any:
    if not isinstance(arg, Node):
        return arg
    return replace(arg, type=TensorType(arg.tensor.dtype, (), (), _CPU))


def _scalar_operands(node: Node, args: tuple[Any, ...]) -> Node:
    """Uniform operands as scalar arguments, where the rules of scalars give the same value and dtype."""
    if node.op == "cast":
        return keep(node, args)
    last = max((i for i, arg in enumerate(args) if isinstance(arg, Node) and arg.op != "full"), default=-1)
    first = 1 if node.op == "where" else 0
    if last < first:  # at most the condition is a tensor of several values: the others give the dtype
        return keep(node, args)
    return keep(node, tuple(
        arg.args[0] if i >= first and isinstance(arg, Node) and is_uniform(arg) and _keeps_value(arg) else arg
        for i, arg in enumerate(args)
    ))


def _keeps_value(full: Node) -> bool:
    """Half-precision scalars are not rounded to half, as tensors are: only exact ones may be inlined."""
    value, dtype = full.args[0], full.tensor.dtype
    if dtype_kind(dtype) != "f" or dtype is torch.float64:
        return True
    return math.isnan(value) or torch.tensor(value, dtype=dtype).item() == value


