"""Tensors that no graph may hold: sparse, quantised, nested ones, and views of such.

In: one from outside, or what a call has made between two graphs. Out: an object that can be passed on; a method of it
is called for real, which is one graph break.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import unsupported_call
from .base import Args, Kwargs, OpaqueValue, Value

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.FunctionType)


def is_foreign(tensor: torch.Tensor) -> bool:
    """Whether a tensor is none of the kind that graphs are made of."""
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
    is_of_plain = tensor._base is None or tensor._base.layout is torch.strided
    return not (is_plain and is_of_plain) or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


class ForeignTensorValue(OpaqueValue):
    """The tensor; what its class defines as methods can be named."""

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name not in vars(self.obj) and isinstance(getattr(type(self.obj), name, None), _METHODS):
            return ForeignMethod(self, name)
        return super().getattr(tr, name)


class ForeignMethod(Value):
    """A method of such a tensor, bound."""

    def __init__(self, owner: ForeignTensorValue, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type[Any]:
        return type(getattr(self.owner.obj, self.name))

    def describe(self) -> str:
        return f"Tensor.{self.name}"

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise unsupported_call(f"{self.describe()}()", "is of a sparse, quantised or nested tensor")

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.owner)}.{self.name}"
