"""Backward where some results got no gradient.

In: a backward graph and the tangents that are missing.
Out: the backward graph for that case, as autograd would have run it.

Backward is linear in its tangents. What depends on missing ones only is missing too, and its gradients are None, a sum
with a missing term is the other term, and any other operation takes zeros for it. So no infinity or NaN in the
derivative of an unused result gets into the gradients, and nothing is computed in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..ir.graph import BufferView, Graph, InputView, Node
from ..ir.rewrite import keep, substitute, substitute_outputs
from ..ir.types import TensorType, contiguous_strides
from ..passes import dce
from .emit import KERNEL_DTYPES, same_shape


def without_tangents(backward: Graph, tangents: Sequence[int], missing: Sequence[int]) -> Graph:
    """`backward` for missing tangents.

    Args:
        tangents: the graph inputs that are tangents, by number.
        missing: those that are missing. They stay inputs, and are given None.
    """
    inputs = backward.inputs
    walk = _Walk(
        dependent={inputs[i] for i in tangents},
        absent={inputs[i] for i in missing},
        value={node: node for node in inputs},
    )
    for node in backward.nodes:
        walk.visit(node)
    present = [None if walk.is_absent(out, inputs) else out for out in backward.outputs]
    outputs = substitute_outputs(tuple(present), walk.value)
    return dce.run(replace(backward, nodes=tuple(walk.nodes), outputs=outputs))


@dataclass
class _Walk:
    """`dependent`: computed from tangents; `absent`: from missing ones only; `value`: what stands for a node."""

    dependent: set[Node]
    absent: set[Node]
    value: dict[Node, Node]
    nodes: list[Node] = field(default_factory=list)
    zeros: dict[Any, Node] = field(default_factory=dict)

    def visit(self, node: Node) -> None:
        tangents = [operand for operand in node.operands() if operand in self.dependent]
        if tangents:
            self.dependent.add(node)
        gone = [operand for operand in tangents if operand in self.absent]
        if gone and len(gone) == len(tangents):
            self.absent.add(node)
        elif gone and node.op == "add":
            self.value[node] = next(self.value[o] for o in node.operands() if o not in self.absent)
        else:
            values = self.value if not gone else {**self.value, **{operand: self._zero(operand) for operand in gone}}
            self.value[node] = keep(node, substitute(node.args, values))
            self.nodes.append(self.value[node])

    def _zero(self, node: Node) -> Node:
        if node.type not in self.zeros:
            made = _zeros(node.tensor, node.origin)
            self.zeros[node.type] = made[-1]
            self.nodes += made
        return self.zeros[node.type]

    def is_absent(self, out: Any, inputs: tuple[Node, ...]) -> bool:
        if isinstance(out, InputView):
            return inputs[out.input] in self.absent
        node = out.buffer if isinstance(out, BufferView) else out
        return isinstance(node, Node) and node in self.absent


def _zeros(type: TensorType, origin: Any) -> list[Node]:
    """Zeros of a type, as the last of these nodes; ATen's, of a dtype that no kernel computes, as complex ones are."""
    if type.dtype in KERNEL_DTYPES:
        return [Node("full", (0.0,), {}, type, origin)]
    options = {"dtype": type.dtype, "device": type.device}
    attrs = {"target": torch.ops.aten.zeros.default, "kwargs": options, "keywords": ()}
    packed = Node("extern", (type.shape,), attrs, type.like(strides=contiguous_strides(type.shape)), origin)
    if same_shape(type.strides, packed.tensor.strides):
        return [packed]
    attrs = {"target": torch.ops.prims.copy_strided.default, "kwargs": {}, "keywords": ()}
    return [packed, Node("extern", (packed, type.strides), attrs, type, origin)]
