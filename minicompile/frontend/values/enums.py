"""Members of enumerations: constants, with attributes and methods of the program's.

In: a member, as a constant, and the name of an attribute. Out: what may change about it as a value from outside; None
for what is as constant as the member.
"""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING

from ..class_lookup import static_lookup
from ..sources import AttrSource, InstanceDictSource
from .base import Lazy, Value
from .constant import ConstantValue, is_constant_object
from .functions import MethodValue, bound_attribute

if TYPE_CHECKING:
    from ..tracer import Tracer

_FIXED = frozenset({"name", "_name_", "__objclass__", "_sort_order_", "__class__"})
_VALUE = enum.Enum.__dict__["value"]


def member_attribute(tr: Tracer, member: ConstantValue, name: str) -> Value | None:
    """An attribute that the program has given to a member or its class, and may change."""
    obj, cls = member.value, type(member.value)
    if name in _FIXED:
        return None
    raw, source = static_lookup(cls, name), AttrSource(tr.anchor(cls), name)
    if isinstance(raw, types.FunctionType):
        return MethodValue(tr.wrap(raw, source), member)
    if raw is _VALUE:
        return member_attribute(tr, member, "_value_")
    if isinstance(raw, types.DynamicClassAttribute) and isinstance(raw.fget, types.FunctionType):
        return tr.wrap(raw.fget, AttrSource(source, "fget")).call(tr, [member], {})
    if isinstance(raw, property):
        return bound_attribute(tr, member, cls, raw, source)
    if name not in vars(obj) or (name == "_value_" and is_constant_object(obj._value_)):
        return None
    return Lazy(vars(obj)[name], InstanceDictSource(tr.anchor(obj), name))
