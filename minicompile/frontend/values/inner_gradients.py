"""`torch.autograd.grad` of what the frame has computed: gradient penalties, forces, residuals of equations.

In: a call of it. Out: a node that calls it, in the compiled graph's joint trace as in eager.

It follows autograd's graph from its outputs back, and that of a tensor from outside which is no leaf goes on outside
the frame, where tracing cannot follow: then it is called for real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from ... import body_calls
from ..breaks import Restart, unsupported_call
from .base import Value
from .callables import rule
from .constant import ConstantValue
from .containers import SequenceValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_NAME = "torch.autograd.grad()"


@rule(torch.autograd.grad)
def _grad(
    tr: Tracer, outputs: Value, inputs: Value, grad_outputs: Value | None = None, retain_graph: Value | None = None,
    create_graph: Value | None = None, only_inputs: Value | None = None, allow_unused: Value | None = None,
    is_grads_batched: Value | None = None, materialize_grads: Value | None = None,
) -> Value:  # fmt: skip
    if is_grads_batched is not None and is_grads_batched.realize(tr).truth(tr) or len(tr.graph.bodies) > 1:
        raise unsupported_call(_NAME, "is called where it cannot be traced")
    of, by = _tensors(tr, outputs), _tensors(tr, inputs)
    _check_that_it_ends_here(tr, of, by)
    options = {
        "create_graph": create_graph, "retain_graph": retain_graph, "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    seeds = grad_outputs or ConstantValue(None)
    tr.inner_gradients.append(tr.root_step)
    return tr.torch_call(body_calls.inner_gradients, [_tuple(of), _tuple(by), seeds], given)


def _tuple(values: list[TensorValue]) -> Value:
    return SequenceValue(tuple, list(values))


def _tensors(tr: Tracer, given: Value) -> list[TensorValue]:
    value = given.realize(tr)
    values = [value] if isinstance(value, TensorValue) else [item.realize(tr) for item in value.items(tr)]
    tensors = [item for item in values if isinstance(item, TensorValue)]
    if len(tensors) != len(values):
        raise unsupported_call(_NAME, "gets something else than tensors")
    return tensors


def _check_that_it_ends_here(tr: Tracer, outputs: list[TensorValue], inputs: list[TensorValue]) -> None:
    """What a tensor from outside was computed from lies outside too: it matters where another one is asked about."""
    asked = [value for value in inputs if value.source is not None]
    reached: dict[int, Any] = {id(found): found for value in outputs for found in tr.graph.inputs_of(value.node)}
    for value in reached.values():
        if value.real is None or not value.real.requires_grad:
            continue
        if value.real._backward_hooks:
            raise unsupported_call(_NAME, "meets a tensor from outside that has hooks")
        if value.real.grad_fn is not None and any(other is not value for other in asked):
            raise unsupported_call(_NAME, "meets a tensor from outside that was computed with gradients")


def check_inner_gradients(tr: Tracer, outputs: list[Node]) -> None:
    """At the end of a piece: no output through which gradients were taken has another one computed from it. There the
    graph would have to be cut, which leaves gradients nothing to follow. Raises Restart."""
    if not tr.inner_gradients:
        return
    from ...lowering.sections import read_by_others, within_inner_gradients

    if within_inner_gradients(tr.graph.graph, read_by_others(tr.graph.graph, outputs)):
        why = "goes back through a result of the graph that another one is computed from"
        raise Restart(tr.inner_gradients[-1], unsupported_call(_NAME, why))
