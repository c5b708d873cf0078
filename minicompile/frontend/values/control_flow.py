"""`torch.cond` with a tensor as its condition, and `torch.while_loop`.

In: the functions and what they are given, tensors in nested containers. Out: one node, which holds the functions as
bodies and calls one of them, or one again and again. As in torch, nothing from outside is changed by a function, both
branches give the same structure of tensors that lie alike, and a step gives tensors that lie like those it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._higher_order_ops.while_loop import while_loop

from ... import body_calls
from ..bodies import Body
from ..breaks import unsupported_call
from ..data_dependent import ConditionValue
from . import trees
from .base import Value
from .callables import rule
from .checkpointing import reachable
from .constant import ConstantValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_COND, _LOOP = "torch.cond", "torch.while_loop"


class _Function:
    """A function that is traced as a body. Made inside of the graph that calls it."""

    def __init__(self, tr: Tracer, call: str, function: Value) -> None:
        self.tr = tr
        self.call = call
        self.function = function
        self.body: Body
        self.leaves: list[Value] = []
        self.spec: Any = None

    def trace(self, values: Sequence[Value], inner: Sequence[TensorValue] | None = None) -> _Function:
        """Run it on these values; with `inner`, on stand-ins for their tensors, which are the body's first inputs."""
        tr, what = self.tr, f"a function of {self.call}()"
        fixed = set(map(id, reachable([self.function, *values])))
        with tr.graph.body(what, tr.root_step, is_branch=True) as self.body, tr.unchanged(what, fixed):
            for tensor in inner or ():
                tensor.node = self.body.input(None, tensor.fake)
            result = self.function.realize(tr).call(tr, list(values), {}).realize(tr)
            self.leaves, self.spec = trees.flatten(tr, result)
            self.nodes = [tr.graph.local(tensor.node) for tensor in self.tensors]
        return self

    @property
    def tensors(self) -> list[TensorValue]:
        return trees.tensors(self.leaves)

    def refuse(self, why: str) -> Exception:
        return unsupported_call(f"{self.call}()", why)


def _check_place(tr: Tracer, call: str) -> None:
    if not all(body.is_branch for body in tr.graph.bodies[1:]):
        raise unsupported_call(f"{call}()", "stands in a function within the graph")


def _places(functions: Sequence[_Function]) -> tuple[list[fx.Node], tuple[tuple[int, ...], ...]]:
    """The nodes from around that the functions read, each once, and which of them each one does."""
    nodes = list(dict.fromkeys(node for function in functions for node in function.body.lifted))
    return nodes, tuple(tuple(map(nodes.index, function.body.lifted)) for function in functions)


# ---- torch.cond ----


@rule(torch.cond)
def _cond(tr: Tracer, pred: Value, true_fn: Value, false_fn: Value, operands: Value | None = None) -> Value:
    """With a number that is known it is a call of one of them."""
    decided = pred.realize(tr)
    given = operands.realize(tr).items(tr) if operands is not None else []
    if isinstance(decided, ConditionValue):
        raise unsupported_call(f"{_COND}()", "takes a branch that depends on a number in a tensor", "Use the tensor.")
    if not isinstance(decided, TensorValue):
        return (true_fn if decided.truth(tr) else false_fn).realize(tr).call(tr, given, {})
    if decided.fake.numel() != 1:
        raise unsupported_call(f"{_COND}()", "takes a branch by more than one element")
    _check_place(tr, _COND)
    true, false = (_Function(tr, _COND, function).trace(given) for function in (true_fn, false_fn))
    _check_alike(true, false)
    if not true.tensors:
        return trees.unflatten(true.leaves, true.spec)
    nodes, places = _places([true, false])
    modules = [function.body.close(function.nodes) for function in (true, false)]
    node, made = tr.graph.call_bodies(tr, body_calls.branched, modules, (places,), [decided.node, *nodes], _COND)
    return trees.unflatten(trees.with_tensors(tr, true.leaves, tr.graph.results(tr, node, made)), true.spec)


def _check_alike(true: _Function, false: _Function) -> None:
    if true.spec != false.spec:
        raise true.refuse("has branches with results of different structures")
    for one, other in zip(true.leaves, false.leaves, strict=True):
        if isinstance(one, TensorValue) and isinstance(other, TensorValue):
            if not _lie_alike(one.fake, other.fake) or not _lie_alike(one.fake, torch.empty_like(one.fake)):
                raise true.refuse("has branches whose results differ in dtype, size or layout")
        elif not (isinstance(one, ConstantValue) and isinstance(other, ConstantValue) and _same(one, other)):
            raise true.refuse("has branches whose results differ in what is no tensor")


def _same(one: ConstantValue, other: ConstantValue) -> bool:
    return type(one.value) is type(other.value) and one.value == other.value


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (one.dtype, one.device, one.shape, one.stride()) == (other.dtype, other.device, other.shape, other.stride())


# ---- torch.while_loop ----


@rule(while_loop)
def _while_loop(tr: Tracer, cond_fn: Value, body_fn: Value, carried_inputs: Value) -> Value:
    _check_place(tr, _LOOP)
    leaves, spec = trees.flatten(tr, carried_inputs.realize(tr))
    carried = trees.tensors(leaves)
    if len(carried) < len(leaves) or not carried:
        return _unrolled(tr, cond_fn.realize(tr), body_fn.realize(tr), carried_inputs.realize(tr))
    goes_on, step = (_traced_step(tr, function, carried, spec) for function in (cond_fn, body_fn))
    if len(goes_on.leaves) != 1 or not goes_on.tensors or goes_on.tensors[0].fake.numel() != 1:
        raise goes_on.refuse("has a condition that is not a tensor of one element")
    if step.spec != spec or len(step.tensors) < len(step.leaves):
        raise step.refuse("has a step that gives another structure than it gets")
    if not all(_lie_alike(one.fake, other.fake) for one, other in zip(carried, step.tensors, strict=True)):
        raise step.refuse("has a step whose results differ in dtype, size or layout from what it gets")
    nodes, places = _places([goes_on, step])
    modules = [function.body.close(function.nodes) for function in (goes_on, step)]
    inputs = [*(tensor.node for tensor in carried), *nodes]
    node, made = tr.graph.call_bodies(tr, body_calls.looped, modules, (len(carried), places), inputs, _LOOP)
    return trees.unflatten(tr.graph.results(tr, node, made), spec)


_MAX_ROUNDS = 100


def _unrolled(tr: Tracer, goes_on: Value, step: Value, carried: Value) -> Value:
    """A loop that carries numbers, whose rounds are known while tracing."""
    for _ in range(_MAX_ROUNDS):
        more = goes_on.call(tr, carried.items(tr), {}).realize(tr)
        if not isinstance(more, ConstantValue):
            raise unsupported_call(f"{_LOOP}()", "carries something that is not a tensor, and goes on by data")
        if not more.value:
            return carried
        carried = step.call(tr, carried.items(tr), {}).realize(tr)
    raise unsupported_call(f"{_LOOP}()", f"carries something that is not a tensor, for more than {_MAX_ROUNDS} rounds")


def _traced_step(tr: Tracer, function: Value, carried: Sequence[TensorValue], spec: Any) -> _Function:
    fakes = [_stand_in(tensor.fake) for tensor in carried]
    inner = [TensorValue(tensor.node, fake) for tensor, fake in zip(carried, fakes, strict=True)]
    values = trees.unflatten(inner, spec).items(tr)
    return _Function(tr, _LOOP, function).trace(values, inner)


def _stand_in(outer: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.empty_strided(outer.shape, outer.stride(), dtype=outer.dtype, device=outer.device).requires_grad_(
            outer.requires_grad
        )
