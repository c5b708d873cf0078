"""Who an object is: `id(obj)`, and weak references, those that a frame makes too.

In: values of objects. Out: a number that nothing is known of but whose it is: it can be compared with other ids, be a
key, and leave the frame. What a weak reference gives is the object, as long as somebody else keeps it alive; so a frame
makes them of what the caller has only.
"""

from __future__ import annotations

import operator
import weakref
from typing import TYPE_CHECKING, Any

from ..breaks import unsupported_call
from ..computed_sources import CallSource
from .base import Args, Kwargs, Lazy, Value
from .callables import rule
from .classes import ClassValue
from .constant import ConstantValue
from .containers import DictValue, SequenceValue, SetValue
from .functions import FunctionValue
from .objects import ObjectValue, PyModuleValue
from .tensor import TensorValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_KNOWN = (TensorValue, ObjectValue, SequenceValue, DictValue, SetValue, FunctionValue, ClassValue, PyModuleValue)
"""Kinds of values of which there is one for an object."""


class IdentityValue(Value):
    """`id()` of an object."""

    def __init__(self, of: Value) -> None:
        self.of = of

    def python_type(self) -> type:
        return int

    def truth(self, tr: Tracer) -> bool:
        return True

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if op not in (operator.eq, operator.ne) or not isinstance(other, IdentityValue):
            return None
        from ..operators import same

        return ConstantValue(same(tr, self.of, other.of) == (op is operator.eq))

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(id)}({glue.ref(self.of)})"


class WeakReferenceValue(Value):
    """A weakref.ref from outside."""

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source

    def python_type(self) -> type:
        return type(self.obj)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        assert self.source is not None
        return Lazy(self.obj(), CallSource(self.source))


class MadeReferenceValue(Value):
    """`weakref.ref(obj)`, made in the frame."""

    def __init__(self, of: Value) -> None:
        self.of = of

    def python_type(self) -> type:
        return weakref.ReferenceType

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return self.of

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(weakref.ref)}({glue.ref(self.of)})"


@rule(id)
def _id(tr: Tracer, obj: Value) -> Value:
    value = obj.realize(tr)
    if not isinstance(value, _KNOWN):
        raise unsupported_call("id()", f"of {value.describe()} cannot be traced")
    return IdentityValue(value)


@rule(weakref.ref)
def _reference(tr: Tracer, obj: Value, callback: Value | None = None) -> Value:
    value = obj.realize(tr)
    has_callback = callback is not None and getattr(callback.realize(tr), "value", callback) is not None
    if has_callback or value.source is None or not isinstance(value, (TensorValue, ObjectValue)):
        raise unsupported_call("weakref.ref()", f"of {value.describe()} cannot be traced")
    return MadeReferenceValue(value)
