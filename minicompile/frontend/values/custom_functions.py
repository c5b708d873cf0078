"""`torch.autograd.Function.apply`: forward and backward of the user's, traced.

In: a call of `apply`. Out: where no gradient can be asked for, forward's operations in the graph; else one node that
holds forward and backward as bodies and gives autograd the user's backward, in the compiled graph's joint trace as in
eager. Backward is traced here, with forward: what it reads of the program is guarded with the call.
"""

from __future__ import annotations

import itertools
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ... import body_calls
from ...guards import kinds
from ..breaks import Restart, unsupported, unsupported_call
from ..class_lookup import static_lookup
from ..skip import is_torch_file
from ..sources import AttrSource, FunctionClosureSource, FunctionDefaultSource, Source
from . import trees
from .base import Args, Value, fail
from .callables import rule
from .checkpointing import reachable
from .classes import ClassValue
from .constant import ConstantValue
from .containers import DictValue, SequenceValue, SetValue
from .deques import DequeValue
from .functions import FunctionValue
from .new_classes import NewClassValue
from .objects import ObjectValue
from .tensor import TensorValue
from .tensor_hooks import reads_what_lasts

if TYPE_CHECKING:
    from ..bodies import Body
    from ..glue import Glue
    from ..tracer import Tracer

_Function = torch.autograd.Function
_STATE = (kinds.ConstantGuard, kinds.LengthGuard, kinds.KeysGuard, kinds.KeyPresenceGuard)
"""Guards on numbers, texts and containers of the program."""


class ContextValue(Value):
    """The `ctx` of forward and backward."""

    def __init__(self, what: str, cls: type, step: int, needs: list[bool], around: set[int]) -> None:
        self.what = what
        self.cls = cls
        self.around = around
        """The ids of the values that the rest of the program can get hold of."""
        self.step = step
        self.needs = needs
        self.saved: list[Value] = []
        self.constant: list[Value] = []
        self.dirty: list[Value] = []
        self.attributes: dict[str, Value] = {}
        self.fills_gradients = True

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"the context of {self.what}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "needs_input_grad":
            return SequenceValue(tuple, [ConstantValue(needed) for needed in self.needs])
        if name in ("saved_tensors", "saved_variables"):
            return SequenceValue(tuple, list(self.saved))
        if name in _METHODS:
            return _ContextMethod(self, name)
        if not hasattr(torch.autograd.function.BackwardCFunction, name):
            fail(AttributeError(f"{self.what} has no {name!r}"))
        raise self.cannot(f"reading attribute {name!r}")

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return name in self.attributes or hasattr(torch.autograd.function.BackwardCFunction, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if hasattr(torch.autograd.function.BackwardCFunction, name):
            raise self.cannot(f"setting attribute {name!r}")
        if any(_may_change(part) and (part.source or id(part) in self.around) for part in reachable([value])):
            raise self.cannot(f"keeping {value.realize(tr).describe()}, which may change until backward runs, as part")
        self.attributes[name] = value
        tr.changed()

    def build(self, glue: Glue) -> str:
        raise Restart(self.step, unsupported(f"{self.describe().capitalize()} is used outside of it."))


def _may_change(value: Value) -> bool:
    is_list = isinstance(value, SequenceValue) and value.mutable
    return is_list or isinstance(value, (DictValue, SetValue, ObjectValue, DequeValue))


class _ContextMethod(Value):
    def __init__(self, owner: ContextValue, name: str) -> None:
        self.owner = owner
        self.name = name

    def call(self, tr: Tracer, args: Args, kwargs: dict[str, Value]) -> Value:
        if kwargs:
            raise self.owner.cannot(f"calling {self.name}() in this form")
        _METHODS[self.name](self.owner, [arg.realize(tr) for arg in args])
        tr.changed()
        return ConstantValue(None)


def _save(owner: ContextValue, values: list[Value]) -> None:
    is_none = [isinstance(value, ConstantValue) and value.value is None for value in values]
    if not all(none or isinstance(value, TensorValue) for none, value in zip(is_none, values, strict=True)):
        raise owner.cannot("saving something that is not a tensor")
    owner.saved = values


def _mark_constant(owner: ContextValue, values: list[Value]) -> None:
    owner.constant = values


def _mark_dirty(owner: ContextValue, values: list[Value]) -> None:
    owner.dirty = values


def _fill_missing(owner: ContextValue, values: list[Value]) -> None:
    if len(values) != 1 or not isinstance(values[0], ConstantValue):
        raise owner.cannot("calling set_materialize_grads() in this form")
    owner.fills_gradients = bool(values[0].value)


_METHODS: dict[str, Any] = {
    "save_for_backward": _save,
    "mark_non_differentiable": _mark_constant,
    "mark_dirty": _mark_dirty,
    "set_materialize_grads": _fill_missing,
}


_MAX_OPTIONAL = 3
"""Results whose gradients may each be left out; for every set of them that is there, backward is traced."""

_ONCE = torch.autograd.function.once_differentiable(lambda: None).__code__

# ---- calls ----


@rule(_Function.apply.__func__)  # type: ignore[attr-defined]
def _apply(tr: Tracer, cls: Value, *args: Value) -> Value:
    owner = cls.realize(tr)
    if not isinstance(owner, ClassValue) or not issubclass(owner.cls, _Function):
        raise unsupported_call("Function.apply()")
    what = f"{owner.cls.__name__}.apply()"
    if any(body.is_transform for body in tr.graph.bodies):
        raise unsupported_call(what, "stands inside a transform of torch.func, which has rules of its own for it")
    values = [arg.realize(tr) for arg in args]
    needs = [isinstance(value, TensorValue) and value.fake.requires_grad for value in values]
    kind: Any = owner.cls
    ctx = ContextValue(what, kind._backward_cls, tr.root_step, needs, set(map(id, reachable(values))))
    call = _Call(tr, owner, what, ctx, values)
    return call.with_gradients() if torch.is_grad_enabled() and any(needs) else call.plain()


class _Call:
    """One call of `apply`."""

    def __init__(self, tr: Tracer, cls: ClassValue, what: str, ctx: ContextValue, args: Args) -> None:
        self.tr = tr
        self.cls = cls
        self.what = what
        self.ctx = ctx
        self.args = args

    def _static(self, name: str) -> Value:
        """A static method of the class; without the wrapper that only forbids second derivatives."""
        raw = static_lookup(self.cls.cls, name)
        if not isinstance(raw, staticmethod) or not isinstance(raw.__func__, types.FunctionType):
            raise unsupported_call(self.what, f"has a {name}() that is not a static method")
        value = self.tr.wrap(raw.__func__, self._source(name))
        inner = getattr(raw.__func__, "__wrapped__", None)
        if inner is not None and raw.__func__.__code__ is _ONCE:
            return self.tr.wrap(inner, self.tr.anchor(inner))
        return value

    def _run_forward(self) -> Value:
        if getattr(self.cls.cls, "setup_context", None) is _Function.setup_context:
            return self._static("forward").call(self.tr, [self.ctx, *self.args], {}).realize(self.tr)
        forward = self._static("forward")
        if not isinstance(forward, FunctionValue) or len(self.args) < forward.code.co_argcount:
            raise unsupported_call(self.what, "leaves arguments of forward() out")
        result = forward.call(self.tr, self.args, {}).realize(self.tr)
        inputs = SequenceValue(tuple, list(self.args))
        self._static("setup_context").call(self.tr, [self.ctx, inputs, result], {})
        return result

    def plain(self) -> Value:
        """Without gradients: forward, in the graph."""
        mode = torch.is_grad_enabled()
        self.tr.set_grad_mode(False)
        try:
            result = self._run_forward()
        finally:
            self.tr.set_grad_mode(mode)
        return self._in_form(result, [self._own(value) for value in self._results(result)])

    def _own(self, value: Value) -> Value:
        """A result; an argument that is returned comes back as another tensor object."""
        if not isinstance(value, TensorValue) or not any(value is arg for arg in self.args):
            return value
        if self._is_dirty(value) and not value.fake.requires_grad:
            return value
        if value.fake.requires_grad:
            return self.tr.torch_call("detach", [value], {})
        return self.tr.torch_call("view_as", [value, value], {})

    def _is_dirty(self, value: Value) -> bool:
        """Whether it is an argument that forward has said to have changed in place."""
        return any(value is dirty for dirty in self.ctx.dirty)

    def _results(self, result: Value) -> list[Value]:
        if isinstance(result, SequenceValue) and result.kind is tuple:
            return [item.realize(self.tr) for item in result.elements]
        return [result]

    def _in_form(self, result: Value, parts: list[Value]) -> Value:
        is_tuple = isinstance(result, SequenceValue) and result.kind is tuple
        return SequenceValue(tuple, parts) if is_tuple else parts[0]

    # ---- with gradients ----

    def with_gradients(self) -> Value:
        """One node, with forward and backward as bodies."""
        tr, graph = self.tr, self.tr.graph
        self._check_backward_of_new_class()
        forward = self._trace_forward()
        backwards = [self._trace_backward(forward, given) for given in self._cases(forward.tensors)]
        inner, lifted = forward.body.graph, forward.body.lifted
        inside = [[lifted.get(node, node) for node in backward.body.lifted] for backward in backwards]
        held = list(dict.fromkeys(node for nodes in inside for node in nodes))
        kept = [node for node in held if node.graph is inner]
        around = [node for node in held if node.graph is not inner]
        saved = {lifted.get(v.node, v.node) for v in self.ctx.saved if isinstance(v, TensorValue)}
        counts = {
            "name": self.cls.cls.__name__,
            "forward": len(lifted),
            "results": len(forward.outputs),
            "constant": [i for i, t in enumerate(forward.tensors) if any(t is c for c in self.ctx.constant)],
            "checked": [i for i, node in enumerate(kept) if node in saved],
            "fills": self.ctx.fills_gradients,
            "given": [backward.given for backward in backwards],
            "order": [[*map([*kept, *around].index, nodes)] for nodes in inside],
            "gradients": [backward.gradients for backward in backwards],
        }
        closed = [backward.body.close(backward.outputs) for backward in backwards]
        modules = [forward.body.close([*forward.outputs, *kept]), *closed]
        nodes = [*self._arguments(lifted), *around]
        node, made = graph.call_bodies(tr, body_calls.custom_gradient, modules, (counts,), nodes, self.what[:-2])
        parts = trees.with_tensors(tr, forward.parts, graph.results(tr, node, made))
        return self._in_form(forward.result, [*map(self._written_back, forward.parts, parts)])

    def _cases(self, results: list[TensorValue]) -> list[tuple[bool, ...]]:
        """For which of the results there may be gradients: all, or, where the others are not filled with zeros, any."""
        recorded = [self._is_recorded(result) for result in results]
        if self.ctx.fills_gradients or sum(recorded) < 2:  # of one, it is always there
            return [tuple(recorded)]
        if sum(recorded) > _MAX_OPTIONAL:
            raise unsupported_call(self.what, f"leaves gradients out, with more than {_MAX_OPTIONAL} results")
        cases = itertools.product(*((True, False) if known else (False,) for known in recorded))
        return [case for case in cases if any(case)]

    def _arguments(self, lifted: dict[fx.Node, fx.Node]) -> list[fx.Node]:
        """What forward gets; a copy of what it changes, which is written back then."""
        copies = {id(value.node): self.tr.torch_call("clone", [value], {}) for value in self.ctx.dirty}  # type: ignore[attr-defined]
        return [copies[id(node)].node if id(node) in copies else node for node in lifted]  # type: ignore[attr-defined]

    def _written_back(self, part: Value, result: Value) -> Value:
        """A result; an argument that forward has changed in place gets it, gradients too."""
        return self.tr.torch_call("copy_", [part, result], {}) if self._is_dirty(part) else result

    def _check_backward_of_new_class(self) -> None:
        """A class that the frame has made may close over variables that change before its backward runs."""
        if isinstance(self.cls, NewClassValue):
            function = self._static("backward")
            if not isinstance(function, FunctionValue) or not reads_what_lasts(function, self.tr):
                raise unsupported_call(self.what, "has a backward() that reads variables that may change until it runs")

    def _trace_forward(self) -> _Forward:
        tr, graph = self.tr, self.tr.graph
        inputs = [arg for arg in self.args if isinstance(arg, TensorValue)]
        written: set[fx.Node] = set()
        what = f"forward() of {self.what}"
        with graph.body(what, tr.root_step, may_write=written) as body, torch.no_grad():
            for value in inputs:
                graph.local(value.node)
            result = self._run_forward()
            parts = self._results(result)
            tensors = [part for part in parts if isinstance(part, TensorValue)]
            outputs = [graph.local(tensor.node) for tensor in tensors]
            written.update(graph.local(value.node) for value in self._dirty_arguments(tensors))
        if not tensors or len({id(tensor) for tensor in tensors}) < len(tensors):
            raise unsupported_call(self.what, "returns no tensor, or one twice")
        return _Forward(body, result, parts, tensors, outputs)

    def _dirty_arguments(self, results: list[TensorValue]) -> list[TensorValue]:
        """The arguments that forward has said to have changed in place, which are among its results then."""
        dirty = [value for value in self.ctx.dirty if isinstance(value, TensorValue)]
        if any(sum(value is arg for arg in self.args) > 1 for value in dirty):
            raise unsupported_call(self.what, "changes a tensor in place and gets one twice")
        for value in dirty:
            if not all(any(value is other for other in others) for others in (self.args, results)):
                raise unsupported_call(self.what, "marks as dirty what is not both an argument and a result")
            if not self._is_recorded(value):
                raise unsupported_call(self.what, "marks as dirty what has no gradient")
        return dirty

    def _trace_backward(self, forward: _Forward, given: tuple[bool, ...]) -> _Backward:
        tr, graph = self.tr, self.tr.graph
        what = f"backward() of {self.what}"
        with graph.body(what, tr.root_step, sees=forward.body.graph) as body, torch.no_grad():
            effects, guards = len(tr.journal), set(tr.guards)
            present = iter(given)
            cotangents = [
                self._cotangent(body, part, next(present)) if isinstance(part, TensorValue) else ConstantValue(None)
                for part in forward.parts
            ]
            result = self._static("backward").call(tr, [self.ctx, *cotangents], {}).realize(tr)
            if len(tr.journal) != effects:
                raise unsupported_call(self.what, "has a backward() that changes objects of the program")
            found_guards = set(tr.guards) - guards
            if any(_reads_state(guard) and not all(map(self._is_torchs, guard.sources())) for guard in found_guards):
                raise unsupported_call(self.what, "has a backward() that reads what may change until it runs")
            found = self._results(result)
            places = self._places(found)
            outputs = [graph.local(value.node) for value in found if isinstance(value, TensorValue)]
        return _Backward(body, given, outputs, places)

    def _is_recorded(self, part: TensorValue) -> bool:
        """Whether autograd knows a result as computed from the arguments."""
        is_number = part.fake.is_floating_point() or part.fake.is_complex()
        return is_number and not any(part is constant for constant in self.ctx.constant)

    def _cotangent(self, body: Body, part: TensorValue, is_given: bool) -> Value:
        """What backward gets for a result: zeros or nothing, where there is no gradient."""
        example = torch.empty_like(part.fake, requires_grad=False)
        given = TensorValue(body.input(None, example), example)
        return given if self.ctx.fills_gradients or is_given else ConstantValue(None)

    def _is_torchs(self, source: Source) -> bool:
        """Whether it is read from what a wrapper of torch's around backward, such as `custom_bwd`, keeps to itself."""
        backward = getattr(static_lookup(self.cls.cls, "backward"), "__func__", None)
        of_wrapper = isinstance(source, FunctionClosureSource) and source.base == self._source("backward")
        return of_wrapper and is_torch_file(backward.__code__.co_filename)  # type: ignore[union-attr]

    def _source(self, name: str) -> Source:
        return AttrSource(self.tr.anchor(self.cls.cls), name)

    def _places(self, found: list[Value]) -> list[tuple[int, ...]]:
        """For each tensor among the arguments, which of the tensors in `found` are its gradient: none, one, or several
        to be added, where it is given more than once."""
        is_tensor = [isinstance(value, TensorValue) for value in found]
        is_none = [isinstance(value, ConstantValue) and value.value is None for value in found]
        for place, (tensor, none) in enumerate(zip(is_tensor, is_none, strict=True)):
            is_wanted = place < len(self.args) and isinstance(self.args[place], TensorValue)
            if not (none or (tensor and is_wanted)):
                raise unsupported_call(self.what, "has a backward() with a gradient for something that needs none")
        if len(found) < len(self.args):
            raise unsupported_call(self.what, "has a backward() that returns too few gradients")
        result: dict[int, tuple[int, ...]] = {}
        for place, arg in enumerate(self.args):
            if isinstance(arg, TensorValue):
                here = (sum(is_tensor[:place]),) if is_tensor[place] else ()
                result[id(arg)] = result.get(id(arg), ()) + here
        return list(result.values())


def _reads_state(guard: kinds.Guard) -> bool:
    return isinstance(guard, _STATE) and not isinstance(guard.source, FunctionDefaultSource)


@dataclass
class _Forward:
    """The body of forward, what it returned, whole and in parts, the tensors among these, and their nodes in it."""

    body: Body
    result: Value
    parts: list[Value]
    tensors: list[TensorValue]
    outputs: list[fx.Node]


@dataclass
class _Backward:
    """The body of backward, for which results it has gradients, its outputs, and which of them belong to each tensor
    among forward's arguments."""

    body: Body
    given: tuple[bool, ...]
    outputs: list[fx.Node]
    gradients: list[tuple[int, ...]]
