"""Tensors that the frame has made and that collect gradients from then on: `x.detach().requires_grad_()`,
`torch.zeros(3, requires_grad=True)`.

In: the tensor. Out: the call as a node, so that `torch.autograd.grad` within the graph sees it as eager does. What
leaves the graph is the tensor without its gradients, and asks for them in the glue. What is computed from it with
gradients must not leave: the graph would have to be a part of autograd's own, from a leaf that it makes. Then the piece
ends before the call, and the tensor is the next one's input.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from ...walks import reachable
from ..breaks import Restart, unsupported_call
from .base import Args, Kwargs, Value
from .constant import ConstantValue
from .tensor import KNOWN_METHODS, TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_NAME = "Tensor.requires_grad_()"


def _requires_grad_(tr: Tracer, owner: TensorValue, requires_grad: Value | None = None) -> Value:
    wanted = requires_grad.realize(tr) if requires_grad is not None else ConstantValue(True)
    if isinstance(wanted, ConstantValue) and wanted.value is owner.fake.requires_grad and len(tr.graph.bodies) == 1:
        return owner
    is_new = owner.source is None and owner.fake.is_leaf and not owner.attributes and len(tr.graph.bodies) == 1
    if not is_new or not isinstance(wanted, ConstantValue) or wanted.value is not True:
        raise unsupported_call(_NAME, "changes what the graph holds")
    result = tr.torch_call("requires_grad_", [owner], {})
    assert result is owner
    owner.is_new_leaf = True
    tr.new_leaves.append((owner.fake, tr.root_step))
    return owner


KNOWN_METHODS["requires_grad_"] = _requires_grad_


def made_with_gradients(tr: Tracer, target: Callable[..., Any] | str, args: Args, kwargs: Kwargs) -> Value | None:
    """A call of a function of torch's that is told to make such a tensor; None for any other call."""
    wanted = kwargs.get("requires_grad")
    if wanted is None or not isinstance(target, types.BuiltinFunctionType):
        return None
    wanted = wanted.realize(tr)
    if not isinstance(wanted, ConstantValue) or wanted.value is not True or len(tr.graph.bodies) > 1:
        return None
    made = tr.torch_call(target, args, {key: value for key, value in kwargs.items() if key != "requires_grad"})
    if not isinstance(made, TensorValue):
        raise unsupported_call(tr.name_of(target))
    return _requires_grad_(tr, made)


def check_new_leaves(tr: Tracer, outputs: Iterable[Node]) -> None:
    """At the end of a piece: from nothing that leaves it, as a result or written to an input, do gradients lead to such
    a tensor. Raises Restart."""
    if not tr.new_leaves:
        return
    leaving = [node.meta["example_value"] for node in outputs]
    found = _reached([*leaving, *(entry.value.fake for entry in tr.graph.inputs)])
    for fake, step in tr.new_leaves:
        if id(fake) in found:
            raise Restart(step, unsupported_call(_NAME, "makes a tensor from which a result of the graph is computed"))


def _reached(values: Iterable[Any]) -> set[int]:
    """The ids of the leaves to which gradients lead from these tensors."""
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
    functions = reachable((tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None), _following)
    variables = (function.variable for function in functions if hasattr(function, "variable"))
    return {id(leaf) for leaf in (*variables, *(tensor for tensor in tensors if tensor.is_leaf))}


def _following(function: Any) -> list[Any]:
    return [following for following, _ in function.next_functions if following is not None]
