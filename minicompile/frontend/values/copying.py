"""`copy.copy` and `copy.deepcopy` of what the program holds.

In: values. Out: new values with the same parts; constants, functions, classes and modules are their own copies. Objects
with a say in how they are copied, and tensors under `deepcopy`, are copied for real between two graphs.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..breaks import unsupported_call
from .base import Value
from .callables import CallableValue, rule
from .classes import ClassValue, can_be_made
from .constant import ConstantValue, OpenValue
from .containers import DictValue, SequenceValue, SetValue
from .functions import FunctionValue
from .objects import ObjectValue, PyModuleValue, static_lookup
from .subclasses import native_base

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
        return _copy_object(self.tr, value, self.copy, self._remember)

    def _remember(self, value: Value, made: V) -> V:
        self.memo[id(value)] = (value, made)
        return made


def _copy_object(
    tr: Tracer,
    value: Value,
    part: Callable[[Value], Value],
    remember: Callable[[Value, Value], Any] | None = None,
) -> Value:
    """A plain object of a Python class: a new one with the same attributes, without its `__init__`."""
    is_plain = isinstance(value, ObjectValue) and can_be_made(value.cls) and native_base(value.cls) is None
    if not isinstance(value, ObjectValue) or not is_plain or any(_has_a_say(value.cls, name) for name in _SAYS):
        raise unsupported_call("copy.copy()", f"of {value.describe()} cannot be traced")
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
