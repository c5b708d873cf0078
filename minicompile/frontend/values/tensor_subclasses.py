"""Tensors of the program's own classes: subclasses of Tensor and Parameter with attributes and methods, and what they
say about torch's functions (`__torch_function__`).

In: such tensors from outside, calls of torch with them. Out: a tensor of the graph like any other, with its class's
attributes in front of torch's. The graph itself gets and gives plain tensors: the glue takes the class off an input
whose class answers for torch's functions, and puts it on a result. A `__torch_function__` in Python is traced;
Tensor's own, which gives results the class of the operands, is a rule here.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import get_default_nowrap_functions

from ...guards.kinds import ConstantGuard, InstanceAttrAbsentGuard
from ..breaks import Restart, unsupported, unsupported_call
from ..class_lookup import MISSING, static_lookup
from ..computed_sources import CallSource, HelperSource
from ..helpers import as_tensor_class
from ..sources import AttrSource
from .base import Args, Kwargs, Value, fail
from .callables import class_object, rule
from .constant import ConstantValue
from .containers import DictValue, SequenceValue
from .contexts import TorchContextValue
from .functions import MethodValue, bound_attribute
from .objects import ObjectValue, dunder_names
from .tensor import KNOWN_METHODS, TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_TORCHS = torch.nn.Parameter.__mro__
_ACCESS = ("__getattribute__", "__getattr__", "__setattr__", "__delattr__")
_SILENT = torch._C._disabled_torch_function_impl
_PLAIN_ANSWER = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def is_traceable(obj: Any) -> bool:
    """Whether it is a tensor of a class of the program's of which only torch's functions, not its operators, know."""
    return is_traceable_class(type(obj))


def is_traceable_class(cls: type) -> bool:
    """The same, of a class."""
    is_tensor = issubclass(cls, torch.Tensor) and cls not in _TORCHS and cls.__module__.partition(".")[0] != "torch"
    if not is_tensor or getattr(cls, "__torch_dispatch__", None) is not torch._C._disabled_torch_dispatch_impl:
        return False
    return all(_owner(cls, name) in _TORCHS for name in _ACCESS if static_lookup(cls, name) is not MISSING)


def outside_tensor(tr: Tracer, obj: torch.Tensor, source: Source) -> Value:
    """The value of such a tensor from outside."""
    tr.is_portable = False
    tr.guard(ConstantGuard(CallSource(tr.anchor(torch._C._is_torch_function_enabled)), not tr.starts_silent))
    return tr.graph.tensor_input(tr, obj, source, TensorSubclassValue)


def _owner(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in base.__dict__)


class TensorSubclassValue(TensorValue):
    """A tensor of a class of the program's."""

    def __init__(self, node: Any, fake: Any, source: Any = None, real: Any = None, cls: Any = None) -> None:
        super().__init__(node, fake, source, real)
        self.cls: Any = cls or type(real)

    def python_type(self) -> type:
        return self.cls  # type: ignore[no-any-return]

    @property
    def graph_source(self) -> Source | None:
        is_silent = self.cls.__torch_function__ is _SILENT
        return self.source if self.source is None or is_silent else HelperSource(self.source, "__plain_tensor__")

    # ---- attributes ----

    def _own_raw(self, tr: Tracer, name: str) -> Any:
        """What the class or a base of the program's holds under a name, MISSING where torch's comes first."""
        raw = static_lookup(self.cls, name)
        if raw is MISSING or _owner(self.cls, name) in _TORCHS:
            return MISSING
        if tr.class_attribute(self.cls, name) is not None:
            raise self.cannot(f"reading attribute {name!r}, which was set on a class here,")
        return raw

    def getattr(self, tr: Tracer, name: str) -> Value:
        raw = self._own_raw(tr, name)
        if raw is MISSING:
            return self._from_torch(tr, name)
        own = name in self.attributes or (self.real is not None and name in vars(self.real))
        if own and not hasattr(type(raw), "__set__"):
            return super().getattr(tr, name)
        if self.source is not None:
            tr.guard(InstanceAttrAbsentGuard(self.source, name))
        found = bound_attribute(tr, self, self.cls, raw, AttrSource(tr.anchor(self.cls), name))
        if found is None:
            raise self.cannot(f"reading attribute {name!r}")
        return found

    def _from_torch(self, tr: Tracer, name: str) -> Value:
        """An attribute of torch's, or of the object alone."""
        getter = getattr(static_lookup(torch.Tensor, name), "__get__", None)
        is_data = name not in self.attributes and hasattr(static_lookup(torch.Tensor, name), "__set__")
        if not is_data or name == "__class__":
            return super().getattr(tr, name)
        return overridden(tr, lambda: getter, lambda: super(TensorSubclassValue, self).getattr(tr, name), [self], {})

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return self._own_raw(tr, name) is not MISSING or super().has_attr(tr, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        raw = self._own_raw(tr, name)
        if isinstance(raw, property) and raw.fset is not None:
            source = AttrSource(AttrSource(tr.anchor(self.cls), name), "fset")
            tr.wrap(raw.fset, source).call(tr, [self, value], {})
        elif hasattr(type(raw), "__set__") or (hasattr(torch.Tensor, name) and _answers(tr, self)):
            raise self.cannot(f"setting attribute {name!r}")
        else:
            super().setattr(tr, name, value)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        """What the class's own operator gives, None if it has none of its own."""
        for name in dunder_names(op, swapped):
            if self._own_raw(tr, name) is not MISSING:
                result = self.getattr(tr, name).realize(tr).call(tr, [other], {}).realize(tr)
                if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
                    return result
        return None

    # ---- the special methods that no function of torch stands for ----

    def _own_special(self, tr: Tracer, name: str, *args: Value) -> Value | None:
        """What a special method of the program's gives; None where there is none."""
        if self._own_raw(tr, name) is MISSING:
            return None
        return self.getattr(tr, name).realize(tr).call(tr, list(args), {}).realize(tr)

    def _special(self, tr: Tracer, name: str, *args: Value) -> Value | None:
        """The same, where torch's would be heard of by `__torch_function__`, which is not traced."""
        found = self._own_special(tr, name, *args)
        if found is None and static_lookup(self.cls, "__torch_function__") is not MISSING and _answers(tr, self):
            raise self.cannot(f"calling {name}, of which __torch_function__ hears,")
        return found

    def getitem(self, tr: Tracer, key: Value) -> Value:
        plain = super().getitem
        own = self._own_special(tr, "__getitem__", key)
        if own is not None:
            return own
        return overridden(tr, lambda: torch.Tensor.__getitem__, lambda: plain(tr, key), [self, key], {})

    def setitem(self, tr: Tracer, key: Value, value: Value) -> None:
        plain = super().setitem

        def put() -> Value:
            plain(tr, key, value)
            return ConstantValue(None)

        if self._own_special(tr, "__setitem__", key, value) is None:
            overridden(tr, lambda: torch.Tensor.__setitem__, put, [self, key, value], {})

    def length(self, tr: Tracer) -> int:
        found = self._special(tr, "__len__")
        return found.const(tr) if found is not None else super().length(tr)

    def items(self, tr: Tracer) -> list[Value]:
        found = self._special(tr, "__iter__")
        return found.items(tr) if found is not None else super().items(tr)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        found = self._special(tr, "__call__", *args)
        return found if found is not None and not kwargs else super().call(tr, args, kwargs)

    def build(self, glue: Glue) -> str:
        made = glue.graph_output(self.node)
        name = glue.assign(f"{glue.keep(as_tensor_class)}({made}, {glue.class_text(self.cls)})", self)
        for key, value in self.attributes.items():
            glue.fill(lambda key=key, value=value: f"{name}.{key} = {glue.ref(value)}")  # type: ignore[misc]
        return name


def answer_of_class(tr: Tracer, op: Any, left: Value, right: Value) -> Value | None:
    """What the operators that the class of an operand has for itself give."""
    ways = [(left, right, False), (right, left, True)]
    if _comes_first(right, left):
        ways.reverse()
    for value, other, swapped in ways:
        answer = value.binary(tr, op, other, swapped) if isinstance(value, TensorSubclassValue) else None
        if answer is not None:
            return answer
    return None


# ---- __torch_function__ ----


def _overriders(tr: Tracer, args: Args, kwargs: Kwargs) -> Iterator[tuple[type, Value]]:
    """The classes among the operands that answer for torch's functions, as torch finds them."""
    for arg in (*args, *kwargs.values()):
        value = arg.realize(tr)
        parts = value.elements if isinstance(value, SequenceValue) else [value]
        for part in parts:
            part = part.realize(tr)
            if isinstance(part, (TensorSubclassValue, ObjectValue)):
                raw = getattr(part.cls, "__torch_function__", _SILENT)
                if raw is not _SILENT:
                    yield part.cls, part


def _answers(tr: Tracer, value: TensorSubclassValue) -> bool:
    """Whether its class has an answer of the program's to torch's functions, which is asked now."""
    answer = getattr(value.cls, "__torch_function__", _SILENT)
    return not tr.is_silent and answer is not _SILENT and getattr(answer, "__func__", None) is not _PLAIN_ANSWER


def overridden(
    tr: Tracer, function: Callable[[], Any], run: Callable[[], Value], args: Args, kwargs: Kwargs
) -> Value:
    """What the operands' classes make of a call of torch; what `run`, the call itself, gives if none has a say."""
    found = {} if tr.is_silent else dict(_overriders(tr, args, kwargs))
    if not found or function() is torch.Tensor.as_subclass:  # of which no class hears
        return run()
    order: list[type] = []
    for cls in found:  # subclasses come before their bases
        place = next((i for i, other in enumerate(order) if cls is not other and issubclass(cls, other)), len(order))
        order.insert(place, cls)
    for cls in order:
        answer = _answer_of(tr, cls, order, function, run, args, kwargs)
        if not (isinstance(answer, ConstantValue) and answer.value is NotImplemented):
            return answer
    fail(TypeError(f"Multiple dispatch failed for '{function()}'"))


def _answer_of(
    tr: Tracer, cls: type, order: list[type], function: Any, run: Callable[[], Value], args: Args, kwargs: Kwargs
) -> Value:
    answer = getattr(cls, "__torch_function__", None)
    raw = static_lookup(cls, "__torch_function__")
    if getattr(answer, "__func__", None) is _PLAIN_ANSWER:
        return _plain_answer(tr, cls, order, run, [*args, *kwargs.values()], is_converted=True)
    if not isinstance(raw, classmethod):
        raise unsupported_call(f"{cls.__name__}.__torch_function__()", "is no class method")
    source = AttrSource(AttrSource(tr.anchor(cls), "__torch_function__"), "__func__")
    method = MethodValue(tr.wrap(raw.__func__, source), tr.constant(cls))
    target = function()
    if target is None:
        raise unsupported_call(f"{cls.__name__}.__torch_function__()", "hears of an operator without a name")
    classes = SequenceValue(tuple, [tr.constant(each) for each in order])
    named = [DictValue(dict, dict(kwargs))] if kwargs else []
    return method.call(tr, [tr.constant(target), classes, SequenceValue(tuple, list(args)), *named], {}).realize(tr)


def _plain_answer(
    tr: Tracer, cls: type, order: list[type], run: Callable[[], Value], operands: Args, *, is_converted: bool
) -> Value:
    """Tensor's own `__torch_function__`."""
    if not all(issubclass(cls, other) for other in order):
        return ConstantValue(NotImplemented)
    with silent(tr):
        result = run().realize(tr)
    return _of_class(tr, cls, result, operands) if is_converted else result


class silent:
    """While it is open, classes are not asked."""

    def __init__(self, tr: Tracer) -> None:
        self.tr = tr

    def __enter__(self) -> None:
        self.before, self.tr.is_silent = self.tr.is_silent, True

    def __exit__(self, *error: object) -> None:
        self.tr.is_silent = self.before


def _of_class(tr: Tracer, cls: type, result: Value, operands: Args) -> Value:
    """Tensors in a result as tensors of a class. One that no operand is has just been made: it is of it from now on."""
    if isinstance(result, SequenceValue):
        return SequenceValue(result.kind, [_of_class(tr, cls, item.realize(tr), operands) for item in result.elements])
    if not isinstance(result, TensorValue) or issubclass(result.python_type(), cls):
        return result
    return as_class(tr, result, cls, is_new=result.source is None and not _is_among(tr, result, operands))


def _is_among(tr: Tracer, result: Value, operands: Args) -> bool:
    for operand in operands:
        operand = operand.realize(tr)
        if operand is result or (isinstance(operand, SequenceValue) and _is_among(tr, result, operand.elements)):
            return True
    return False


def as_class(tr: Tracer, value: TensorValue, cls: type, *, is_new: bool) -> Value:
    """A tensor as one of a class: itself, or a view of it."""
    tr.changed()
    if not is_new:
        with silent(tr):
            made = tr.torch_call(torch.ops.aten.alias.default, [value], {})
        assert isinstance(made, TensorValue)
        value = made
    return tr.graph.renewed(TensorSubclassValue(value.node, value.fake, cls=cls))


def standing_for(tr: Tracer, made: Value, inner: TensorValue) -> Value:
    """What a node gives for a tensor within its bodies: of that one's class, with its attributes."""
    if inner.source is not None or not isinstance(made, TensorValue) or made.source is not None:
        return made
    result: Any = made
    if isinstance(inner, TensorSubclassValue) and not isinstance(made, TensorSubclassValue):
        result = as_class(tr, made, inner.cls, is_new=True)
    result.attributes.update(inner.attributes)
    return result  # type: ignore[no-any-return]


@rule(_PLAIN_ANSWER)
def _plain_torch_function(
    tr: Tracer, cls: Value, func: Value, types: Value, args: Value | None = None, kwargs: Value | None = None
) -> Value:
    owner = class_object(cls.realize(tr))
    order = [class_object(item.realize(tr)) for item in types.realize(tr).items(tr)]
    given = args.realize(tr).items(tr) if args is not None else []
    named = kwargs.realize(tr) if kwargs is not None else ConstantValue(None)
    by_name = dict(named.entries) if isinstance(named, DictValue) else {}
    function = func.realize(tr)
    known = getattr(function, "fn", None)
    is_converted = known is None or known not in get_default_nowrap_functions()
    operands = [*given, *by_name.values()]

    def run() -> Value:
        return function.call(tr, given, by_name)

    return _plain_answer(tr, owner, order, run, operands, is_converted=is_converted)


@rule(_SILENT)
def _silent_torch_function(
    tr: Tracer, func: Value, types: Value, args: Value | None = None, kwargs: Value | None = None
) -> Value:
    given = args.realize(tr).items(tr) if args is not None else []
    named = kwargs.realize(tr) if kwargs is not None else None
    with silent(tr):
        return func.realize(tr).call(tr, given, dict(named.entries) if isinstance(named, DictValue) else {})


@rule(torch.Tensor._make_subclass)
def _make_subclass(tr: Tracer, cls: Value, data: Value, require_grad: Value | None = None) -> Value:
    wants = require_grad is not None and require_grad.realize(tr).truth(tr)
    value, wanted = data.realize(tr), class_object(cls.realize(tr))
    if wants or not isinstance(value, TensorValue):
        raise unsupported_call("Tensor._make_subclass()", "makes a tensor of which gradients are wanted")
    with silent(tr):
        plain = tr.torch_call("detach", [value], {})
    return _as_subclass(tr, plain, cls) if wanted is not torch.Tensor else plain


@rule(torch.Tensor.as_subclass)
def _as_subclass(tr: Tracer, tensor: Value, cls: Value) -> Value:
    """A view of a class; what its class says of torch's functions, it says of this one too."""
    value, wanted = tensor.realize(tr), class_object(cls.realize(tr))
    is_known = wanted is torch.Tensor or (isinstance(wanted, type) and is_traceable_class(wanted))
    if not isinstance(value, TensorValue) or not is_known:
        raise unsupported_call("Tensor.as_subclass()", "makes a tensor of a class that cannot be traced")
    if wanted is not torch.Tensor:
        return as_class(tr, value, wanted, is_new=False)
    with silent(tr):
        return tr.torch_call(torch.ops.aten.alias.default, [value], {})


KNOWN_METHODS["as_subclass"] = _as_subclass


class _SilentBlock(TorchContextValue):
    """`torch._C.DisableTorchFunctionSubclass()`."""

    def python_type(self) -> type:
        return torch._C.DisableTorchFunctionSubclass

    def enter(self, tr: Tracer) -> Value:
        before, tr.is_silent = tr.is_silent, True
        return _SilentExit(before, tr.root_step)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(torch._C.DisableTorchFunctionSubclass)}()"


class _SilentExit(Value):
    """Its exit."""

    def __init__(self, before: bool, step: int) -> None:
        self.before = before
        self.step = step

    def python_type(self) -> type:
        return types.MethodType

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tr.is_silent = self.before
        return ConstantValue(None)

    def build(self, glue: Glue) -> str:
        raise Restart(self.step, unsupported("The graph breaks inside a block that turns __torch_function__ off."))


@rule(torch._C.DisableTorchFunctionSubclass)
def _silent_block(tr: Tracer) -> Value:
    return _SilentBlock()


# ---- the functions by which torch names its operators ----

_NAMES = {
    "add": ("add", "add"), "sub": ("sub", "__rsub__"), "mul": ("mul", "mul"), "truediv": ("div", "__rdiv__"),
    "floordiv": ("__floordiv__", "__rfloordiv__"), "mod": ("remainder", "__rmod__"), "pow": ("__pow__", "__rpow__"),
    "matmul": ("matmul", "__rmatmul__"), "and_": ("__and__", "bitwise_and"), "or_": ("__or__", "bitwise_or"),
    "xor": ("__xor__", "bitwise_xor"), "lshift": ("__lshift__", "__rlshift__"), "rshift": ("__rshift__", "__rrshift__"),
    "iadd": ("add_", None), "isub": ("sub_", None), "imul": ("mul_", None), "itruediv": ("div_", None),
    "ifloordiv": ("floor_divide_", None), "imod": ("remainder_", None), "ilshift": ("__ilshift__", None),
    "irshift": ("__irshift__", None), "iand": ("__iand__", None), "ior": ("__ior__", None), "ixor": ("__ixor__", None),
    "lt": ("lt", "gt"), "le": ("le", "ge"), "gt": ("gt", "lt"), "ge": ("ge", "le"), "eq": ("__eq__", "__eq__"),
    "ne": ("ne", "ne"), "neg": ("neg", None), "pos": ("positive", None), "invert": ("__invert__", None),
}  # fmt: skip
"""Operator → the method of Tensor that `__torch_function__` hears of, for a tensor on the left and on the right."""


def answered(tr: Tracer, target: Any, args: Args, kwargs: Kwargs, run: Callable[[], Value]) -> Value:
    """What the operands' classes make of a node of the graph, which `run` makes if none has a say."""
    if isinstance(target, str):
        return overridden(tr, lambda: getattr(torch.Tensor, target), run, args, kwargs)
    if getattr(target, "__module__", None) != "_operator":
        return overridden(tr, lambda: target, run, args, kwargs)
    names = _NAMES.get(target.__name__, (None, None))
    values = [arg.realize(tr) for arg in args]
    is_left = isinstance(values[0], TensorValue)
    is_comparison = target in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
    if len(values) == 2 and (not is_left or (is_comparison and _comes_first(values[1], values[0]))):
        return overridden(tr, lambda: _method(names[1]), run, [values[1], values[0]], kwargs)
    return overridden(tr, lambda: _method(names[0]), run, values, kwargs)


def _comes_first(value: Value, other: Value) -> bool:
    kind, before = value.python_type(), other.python_type()
    return kind is not before and issubclass(kind, before)


def _method(name: str | None) -> Any:
    return getattr(torch.Tensor, name) if name is not None else None
