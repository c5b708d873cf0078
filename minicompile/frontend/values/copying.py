"""`copy.copy` and `copy.deepcopy` of what the program holds.

In: values. Out: new values with the same parts; constants, functions, classes and modules are their own copies. Under
`deepcopy` a tensor is cloned, if its clone lies in memory as it does and nobody wants gradients of it. Objects with a
say in how they are copied, and other tensors, are copied for real between two graphs.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ...guards.tensors import OverlapGuard, memory_overlaps
from ..breaks import unsupported_call
from ..class_lookup import static_lookup
from ..shared_elements import same_memory
from .base import Value
from .callables import CallableValue, rule
from .classes import ClassValue, can_be_made
from .constant import ConstantValue, OpenValue
from .containers import DictValue, SequenceValue, SetValue
from .functions import FunctionValue
from .objects import ObjectValue, PyModuleValue
from .subclasses import native_base
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..tracer import Tracer

V = TypeVar("V", bound=Value)
_ATOMS = (ConstantValue, OpenValue, FunctionValue, ClassValue, PyModuleValue, CallableValue)
_SAYS = (
    "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
    "__getnewargs_ex__", "__slots__",
)  # fmt: skip
"""Attributes of a class by which its objects have a say in how they are copied."""


@rule(copy.copy)
def _copy(tr: Tracer, value: Value) -> Value:
    value = value.realize(tr)
    if isinstance(value, _ATOMS) or _is_tuple(value):
        return value
    if isinstance(value, (SequenceValue, DictValue)) and value.kind in (list, dict):
        return value.getattr(tr, "copy").call(tr, [], {})
    if isinstance(value, SetValue) and value.kind is set:
        return value.copied()
    return _copy_object(tr, value, lambda part: part)


def _is_tuple(value: Value) -> bool:
    return isinstance(value, SequenceValue) and value.kind is tuple


@rule(copy.deepcopy)
def _deepcopy(tr: Tracer, value: Value) -> Value:
    return _Deep(tr).copy(value)


class _Deep:
    """One call of `deepcopy`, with its memo: what is met twice is copied once."""

    def __init__(self, tr: Tracer) -> None:
        self.tr = tr
        self.memo: dict[int, tuple[Value, Value]] = {}

    def copy(self, value: Value) -> Value:
        value = value.realize(self.tr)
        if isinstance(value, _ATOMS):
            return value
        known = self.memo.get(id(value))
        return known[1] if known is not None else self._copy_new(value)

    def _copy_new(self, value: Value) -> Value:
        if isinstance(value, SequenceValue) and value.kind is list:
            made = self._remember(value, SequenceValue(list, []))
            made.elements.extend(self.copy(element) for element in value.elements)
            return made
        if isinstance(value, DictValue) and value.kind is dict and not value.key_values:
            result = self._remember(value, DictValue(dict, {}))
            result.entries.update({key: self.copy(item) for key, item in value.entries.items()})
            return result
        if isinstance(value, SetValue) and all(isinstance(item, ConstantValue) for item in value.entries.values()):
            return self._remember(value, value.copied())
        if _is_tuple(value):
            assert isinstance(value, SequenceValue)
            parts = [self.copy(element) for element in value.elements]
            is_same = all(new is old.realize(self.tr) for new, old in zip(parts, value.elements, strict=True))
            return value if is_same else SequenceValue(tuple, parts)
        if isinstance(value, TensorValue):
            return self._remember(value, self._clone(value))
        return _copy_object(self.tr, value, self.copy, self._remember)

    def _clone(self, tensor: TensorValue) -> Value:
        """Tensors that share memory have copies that do, which clones would not: these are told apart by guards."""
        tr, others = self.tr, [value for value, _ in self.memo.values() if isinstance(value, TensorValue)]
        has_gradient = tensor.source is not None and not _is_none(tensor.getattr(tr, "grad").realize(tr))
        if not _is_cloned_alike(tensor) or has_gradient or any(_share_memory(tensor, other) for other in others):
            raise unsupported_call("copy.deepcopy()", f"of {tensor.describe()} cannot be traced")
        for other in others:
            if tensor.source is not None and other.source is not None:
                tr.guard(OverlapGuard(tensor.source, other.source, False))
        return tr.torch_call("clone", [tensor], {}).realize(tr)

    def _remember(self, value: Value, made: V) -> V:
        self.memo[id(value)] = (value, made)
        return made


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


def _share_memory(one: TensorValue, other: TensorValue) -> bool:
    if one.real is not None and other.real is not None:
        return memory_overlaps(one.real, other.real)
    return same_memory(one.fake, other.fake)


def _is_cloned_alike(tensor: TensorValue) -> bool:
    """Whether a clone is what `deepcopy` makes: of a plain tensor whose elements fill its memory."""
    fake = tensor.fake
    is_plain = tensor.python_type() is torch.Tensor and not fake.requires_grad and not tensor.attributes
    return is_plain and not (fake.is_conj() or fake.is_neg()) and fake.clone().stride() == fake.stride()


def _copy_object(
    tr: Tracer,
    value: Value,
    part: Callable[[Value], Value],
    remember: Callable[[Value, Value], Any] | None = None,
) -> Value:
    """A plain object of a Python class: a new one with the same attributes, without its `__init__`."""
    is_plain = isinstance(value, ObjectValue) and can_be_made(value.cls) and native_base(value.cls) is None
    if not isinstance(value, ObjectValue) or not is_plain or any(_has_a_say(value.cls, name) for name in _SAYS):
        name = "copy.copy()" if remember is None else "copy.deepcopy()"
        raise unsupported_call(name, f"of {value.describe()} cannot be traced")
    made = ObjectValue(value.cls, None, None)
    made.class_value = value.class_value or tr.constant(value.cls)
    if remember is not None:
        remember(value, made)
    attributes = value.getattr(tr, "__dict__").realize(tr)
    assert isinstance(attributes, DictValue)
    made.attributes.update({name: part(item) for name, item in attributes.entries.items()})
    tr.changed()
    return made


def _has_a_say(cls: type, name: str) -> bool:
    if name == "__slots__":
        return any(name in base.__dict__ for base in cls.__mro__)
    return isinstance(static_lookup(cls, name), types.FunctionType)
