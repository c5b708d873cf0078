"""`super()`: attribute lookup that begins behind a class in its owner's order of bases.

In: the class and the owner, an object or a class. Out: attributes, bound to the owner.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ..sources import AttrSource
from .base import Args, Kwargs, Lazy, Value, fail, found_by_reading, is_found_by_reading
from .callables import CallableValue, has_rule, rule
from .classes import ClassValue
from .constant import ConstantValue
from .functions import MethodValue, bound_attribute
from .subclasses import SubclassValue
from .tensor import TensorMethod, TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer


class SuperValue(Value):
    """`super()`: attribute lookup that begins behind a class in the owner's order of bases."""

    def __init__(self, cls: type, owner: Value) -> None:
        self.cls = cls
        self.owner = owner

    def python_type(self) -> type:
        return super

    def getattr(self, tr: Tracer, name: str) -> Value:
        start = self.owner.cls if isinstance(self.owner, ClassValue) else self.owner.python_type()
        if isinstance(self.owner, ClassValue) and issubclass(type(start), self.cls):
            return self._of_metaclass(tr, self.owner, name)
        if self.cls not in start.__mro__:
            fail(TypeError("super(type, obj): obj must be an instance or subtype of type"))
        behind = start.__mro__[start.__mro__.index(self.cls) + 1 :]
        if tr.attribute_among(behind, name) is not None:
            raise self.cannot(f"reading {name!r}, which was set on a class here,")
        for base in behind:
            if name in base.__dict__:
                return self._bind(tr, base, name, base.__dict__[name])
        fail(AttributeError(f"'super' object has no attribute '{name}'"), is_exact=True)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return is_found_by_reading(tr, self, name)

    def attribute_or_none(self, tr: Tracer, name: str) -> Value | None:
        return found_by_reading(tr, self, name)

    def _of_metaclass(self, tr: Tracer, owner: ClassValue, name: str) -> Value:
        """In a method of a metaclass, where the owner is an object of it."""
        metaclass: type = type(owner.cls)
        order = metaclass.__mro__
        for base in order[order.index(self.cls) + 1 :]:
            raw = base.__dict__.get(name)
            if isinstance(raw, types.FunctionType):
                return MethodValue(tr.wrap(raw, AttrSource(tr.anchor(base), name)), owner)
            if raw is type.__call__:
                return _MakeValue(owner)
            if raw is not None:
                break
        raise self.cannot(f"reading {name!r}")

    def _bind(self, tr: Tracer, base: type, name: str, raw: Any) -> Value:
        source = AttrSource(tr.anchor(base), name)
        cls = self.owner.cls if isinstance(self.owner, ClassValue) else self.owner.python_type()
        if isinstance(self.owner, ClassValue) and isinstance(raw, types.FunctionType):
            return Lazy(raw, source)
        found = bound_attribute(tr, self.owner, cls, raw, source) if not has_rule(raw) else None
        if found is not None:
            return found
        if isinstance(self.owner, SubclassValue) and self.owner.is_native(raw):
            return self.owner.native_method(tr, raw.__name__)
        if raw is object.__new__ or (name == "__new__" and has_rule(raw)):
            return CallableValue(raw)
        if isinstance(raw, types.BuiltinFunctionType) and has_rule(raw):
            return CallableValue(raw)  # which is not bound
        if raw is object.__init__:
            return CallableValue(_nothing)
        if has_rule(raw):
            return MethodValue(CallableValue(raw), self.owner)
        if isinstance(self.owner, TensorValue) and issubclass(torch.Tensor, base):
            return TensorMethod(self.owner, name)
        raise self.cannot(f"reading {name!r}")

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(super)}({glue.keep(self.cls)}, {glue.ref(self.owner)})"


class _MakeValue(Value):
    """`type.__call__`, bound to a class."""

    def __init__(self, owner: ClassValue) -> None:
        self.owner = owner

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return self.owner.make(tr, args, kwargs, asked=True)

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(type.__call__)}.__get__({glue.ref(self.owner)})"


def _nothing() -> None:
    """What `object.__init__` does."""


@rule(_nothing)
def _nothing_rule(tr: Tracer) -> Value:
    return ConstantValue(None)
