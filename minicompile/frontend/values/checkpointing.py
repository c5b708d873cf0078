"""`torch.utils.checkpoint.checkpoint`: backward computes again what forward did.

In: a call of it. Out: one node that holds the function as a body and keeps its inputs alone; our own lowering takes the
body apart and lets the partitioner compute it again. Eager runs the function twice, so one that changes anything
besides its own results is left to eager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import checkpoint

from ... import body_calls
from ..breaks import unsupported_call
from . import trees
from .base import Kwargs, Lazy, Value
from .callables import rule
from .containers import DictValue, SequenceValue
from .functions import CellValue, FunctionValue, MethodValue, PartialValue
from .objects import ObjectValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_NAME = "torch.utils.checkpoint.checkpoint"
_SETTINGS = ("context_fn", "determinism_check", "debug", "early_stop")


@rule(checkpoint)
def _checkpoint(
    tr: Tracer, function: Value, *args: Value, use_reentrant: Value | None = None, **kwargs: Value
) -> Value:
    preserve = kwargs.pop("preserve_rng_state", None)
    if use_reentrant is None or any(name in kwargs for name in _SETTINGS):
        raise unsupported_call(f"{_NAME}()", "needs use_reentrant, and no other setting, to be traced")
    is_reentrant = use_reentrant.realize(tr).truth(tr)
    values = [arg.realize(tr) for arg in args]
    if is_reentrant and (kwargs or not any(isinstance(v, TensorValue) and v.fake.requires_grad for v in values)):
        raise unsupported_call(f"{_NAME}()", "with use_reentrant=True needs an argument with gradients")
    if not torch.is_grad_enabled():
        return function.realize(tr).call(tr, values, kwargs)
    options = {"use_reentrant": is_reentrant}
    if preserve is not None:
        options["preserve_rng_state"] = preserve.realize(tr).truth(tr)
    return _with_body(tr, function, values, kwargs, options)


def _with_body(tr: Tracer, function: Value, values: list[Value], kwargs: Kwargs, options: dict[str, bool]) -> Value:
    graph, inputs = tr.graph, [value for value in values if isinstance(value, TensorValue)]
    what = f"the function of {_NAME}()"
    fixed = set(map(id, reachable([function, *values])))
    with graph.body(what, tr.root_step, is_checkpoint=True) as body, tr.unchanged(what, fixed):
        for value in inputs:
            graph.local(value.node)
        result = function.realize(tr).call(tr, values, kwargs).realize(tr)
        leaves, spec = trees.flatten(tr, result)
        outputs = trees.tensors(leaves)
        nodes = [graph.local(output.node) for output in outputs]
    if not outputs:
        raise unsupported_call(f"{_NAME}()", "returns no tensor")
    module = body.close(nodes)
    node, made = graph.call_bodies(tr, body_calls.checkpointed, [module], (options,), list(body.lifted), _NAME)
    return trees.unflatten(trees.with_tensors(tr, leaves, graph.results(tr, node, made)), spec)


def reachable(values: list[Value]) -> list[Value]:
    """The values that a function can get hold of through its closure and arguments."""
    seen: dict[int, Value] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, Lazy):
            if value.value is None:
                continue
            value = value.value
        if id(value) not in seen:
            seen[id(value)] = value
            todo += _parts(value)
    return list(seen.values())


def _parts(value: Value) -> list[Value]:
    if isinstance(value, CellValue):
        return [value.contents] if value.contents is not None else []
    if isinstance(value, FunctionValue):
        return [*value.closure, *value.defaults, *value.kwdefaults.values()]
    if isinstance(value, MethodValue):
        return [value.function, value.owner]
    if isinstance(value, PartialValue):
        return [value.function, *value.args, *value.kwargs.values()]
    if isinstance(value, ObjectValue):
        return list(value.attributes.values())
    if isinstance(value, SequenceValue):
        return list(value.elements)
    return list(value.entries.values()) if isinstance(value, DictValue) else []
