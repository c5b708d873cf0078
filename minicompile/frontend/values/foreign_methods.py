"""Methods, written in C, of objects that tracing cannot look into: `pattern.match`, `sparse.to_dense`.

In: the object and the method's name. Out: a value whose call is one graph break. (Reading the attribute is none.)
"""

from __future__ import annotations

import types
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import unsupported_call
from .base import Args, BoundMethod, Kwargs, Value

if TYPE_CHECKING:
    from ..tracer import Tracer

_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def foreign_method(owner: Value, obj: Any, name: str) -> ForeignMethod | None:
    """The method `name` of an object from outside; None for any other attribute, and where a class of the program's has
    a say in how attributes are found."""
    cls = type(obj)
    found = getattr_static(cls, name, None)
    is_method = isinstance(found, _METHODS) or (cls is torch.Tensor and isinstance(found, types.FunctionType))
    if not is_method or owner.source is None or isinstance(cls.__getattribute__, types.FunctionType):
        return None
    return ForeignMethod(owner, obj, name) if name not in getattr(obj, "__dict__", ()) else None


class ForeignMethod(BoundMethod):
    """The method, bound to `owner`, whose real object is `obj`."""

    def __init__(self, owner: Value, obj: Any, name: str) -> None:
        super().__init__(owner, name)
        self.obj = obj

    def python_type(self) -> type[Any]:
        return type(getattr(self.obj, self.name))

    def describe(self) -> str:
        return f"{type(self.obj).__name__}.{self.name}"

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise unsupported_call(f"{self.describe()}()")
