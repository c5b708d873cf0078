"""`Tensor.register_hook`, and `retain_grad`, on a tensor that the frame has computed.

In: a call of it. Out: a node that registers the hook, traced as a body, on the graph's own tensor: in the compiled
graph's joint trace as in eager, autograd calls it.

Eager looks things up when backward runs. So a hook that reads what may have changed by then (a list, an attribute, a
global number, a variable that is set again) is registered for real, and ends the graph; likewise one that changes
anything, a hook on a tensor from outside, whose gradient has other parts, and one on a tensor that leaves the graph.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from ... import body_calls
from ..breaks import Break, Restart, unsupported, unsupported_call
from .base import Lazy, Value
from .constant import ConstantValue
from .functions import FunctionValue
from .tensor import KNOWN_METHODS, TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_NAME = "Tensor.register_hook()"
_RETAIN = "Tensor.retain_grad()"
_LASTING = (types.ModuleType, types.BuiltinFunctionType, type, torch.dtype, torch.device)
"""Kinds of globals that a program does not replace between forward and backward."""


class HookHandleValue(Value):
    """What `register_hook` returns. Only a real one can be used: then the hook is registered for real."""

    def __init__(self, step: int) -> None:
        self.step = step

    def describe(self) -> str:
        return "the handle of a hook"

    def cannot(self, what: str) -> Break:
        raise Restart(self.step, unsupported_call(_NAME, "returns a handle that is used"))

    def build(self, glue: Glue) -> str:
        raise self.cannot("rebuilding")


def _register_hook(tr: Tracer, owner: TensorValue, hook: Value) -> Value:
    function = hook.realize(tr)
    if owner.source is not None:
        raise unsupported_call(_NAME, "is called on a tensor from outside, whose gradient has other parts")
    if not owner.fake.requires_grad or len(tr.graph.bodies) > 1:
        raise unsupported_call(_NAME, "is called where it cannot be traced")
    if not isinstance(function, FunctionValue) or not reads_what_lasts(function, tr):
        raise unsupported_call(_NAME, "gets a hook that reads what may change before backward")
    _trace(tr, owner, function)
    return HookHandleValue(tr.root_step)


def _trace(tr: Tracer, owner: TensorValue, function: FunctionValue) -> None:
    graph, what = tr.graph, f"the hook {function.name}"
    effects = len(tr.journal)
    with graph.body(what, tr.root_step) as body:
        with torch.no_grad():
            example = torch.empty_like(owner.fake, requires_grad=False)
            result = function.call(tr, [TensorValue(body.input(None, example), example)], {}).realize(tr)
        is_none = isinstance(result, ConstantValue) and result.value is None
        if len(tr.journal) != effects or not (is_none or _may_be_gradient(result, example)):
            raise unsupported_call(_NAME, "gets a hook that does more than compute a gradient")
        outputs = [graph.local(result.node)] if isinstance(result, TensorValue) else []
    if any(node.op == "placeholder" and node.graph is graph.graph for node in body.lifted):
        raise unsupported_call(_NAME, "gets a hook that reads a tensor from outside, which may change before backward")
    if outputs:
        tr.hooked.append((owner.node, tr.root_step, _NAME))
        graph.call_bodies(tr, body_calls.hooked, [body.close(outputs)], (), [owner.node, *body.lifted], _NAME)


def _may_be_gradient(value: Value, example: torch.Tensor) -> bool:
    if not isinstance(value, TensorValue):
        return False
    fake = value.fake
    return (fake.dtype, fake.device, fake.shape) == (example.dtype, example.device, example.shape)


def reads_what_lasts(function: FunctionValue, tr: Tracer) -> bool:
    """Whether all that a function reads is its own, cannot change, or is a tensor or number of a variable that is set
    once."""
    if any(_is_replaceable(function.globals_dict.get(name)) for name in function.code.co_names):
        return False
    defaults = [value.realize(tr) for value in (*function.defaults, *function.kwdefaults.values())]
    if not all(isinstance(value, (TensorValue, ConstantValue)) for value in defaults):
        return False
    for cell in function.closure:
        contents = cell.contents
        contents = contents.realize(tr) if isinstance(contents, Lazy) else contents
        if isinstance(contents, FunctionValue):
            if not reads_what_lasts(contents, tr):
                return False
        elif not isinstance(contents, TensorValue):
            if cell.source is not None or not isinstance(contents, ConstantValue):
                return False
        tr.final_cells.append((cell, contents, tr.root_step))
    return not any(isinstance(constant, types.CodeType) for constant in function.code.co_consts)


def _is_replaceable(value: Any) -> bool:
    return value is not None and not isinstance(value, _LASTING)


def check_final_cells(tr: Tracer, goes_on: bool) -> None:
    """At the end of a piece: what hooks and backwards read has not been set since, and will not be. Raises Restart."""
    for cell, contents, step in tr.final_cells:
        now = cell.contents
        if goes_on or (now.value if isinstance(now, Lazy) else now) is not contents:
            raise Restart(step, unsupported("A variable that a hook or backward() reads is set again before it runs."))


def _retain_grad(tr: Tracer, owner: TensorValue) -> Value:
    """Who could ask for the gradient of a tensor that never leaves the graph?"""
    is_leaf = owner.source is not None and owner.fake.is_leaf
    if not owner.fake.requires_grad or len(tr.graph.bodies) > 1 or (owner.source is not None and not is_leaf):
        raise unsupported_call(_RETAIN, "changes what the graph holds")
    if not is_leaf:
        tr.hooked.append((owner.node, tr.root_step, _RETAIN))
    return ConstantValue(None)


def check_hooked(tr: Tracer, outputs: Iterable[Node]) -> None:
    """At the end of a piece: no tensor with a hook leaves the graph. What is asked of it outside (another hook,
    `retain_grad`, the gradient with respect to it) would be answered before the hook has run. Raises Restart."""
    leaving = {id(node.meta["example_value"]) for node in outputs}
    for node, step, call in tr.hooked:
        if id(node.meta["example_value"]) in leaving:
            raise Restart(step, unsupported_call(call, "is called on a tensor that leaves the graph"))


KNOWN_METHODS["register_hook"] = _register_hook
KNOWN_METHODS["retain_grad"] = _retain_grad
