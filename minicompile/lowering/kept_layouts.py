"""Tensors that are written keep their layout.

In: the wrappers of inputs, and of what each call of the graph is given first, if they have gaps or turned dimensions.
Out: after the call the same, laid out as they were. Functionalization puts the result of a pure operator in the place
of what is written, and takes over its strides, which are those of a new tensor. What the graph does next hangs on them:
whether `contiguous()` is a copy, say.
Sizes and strides are compared by structure: to ask torch about symbolic ones makes a guard, of inputs too that no one
writes, and fails where they depend on data.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..ir.symbols import same_dim, to_dims
from ..ir.types import contiguous_strides
from .functional import is_functional


class KeptLayouts:
    """The tensors of one trace, by their wrappers, that a write could lay out anew: its inputs, which any call may
    reach, and what methods are called on, or what that is a view of."""

    def __init__(self, wrappers: list[Any]) -> None:
        self.watched = [_Watched(wrapper) for wrapper in wrappers if _may_change(wrapper)]
        self.inputs = {id(one.wrapper) for one in self.watched}
        self.called: _Watched | None = None
        self.turned: dict[int, Any] = {}
        """What the graph has made, and then turned itself."""

    def before(self, args: Any) -> None:
        """The graph is about to call something."""
        self.called = None
        if args and isinstance(args[0], torch.Tensor):
            base = args[0]._base if args[0]._is_view() else args[0]
            is_known = id(base) in self.inputs or id(base) in self.turned
            if not is_known and (_may_change(args[0]) or _may_change(base)):
                self.called = _Watched(base)

    def after(self, target: Any, args: Any) -> None:
        """The graph has called `target`."""
        for one in self.watched:
            one.after(target, args)
        if self.called is not None:
            self.called.after(target, args)
            if self.called.is_turned:
                self.turned[id(self.called.wrapper)] = self.called.wrapper


class _Watched:
    def __init__(self, wrapper: Any) -> None:
        self.wrapper = wrapper
        self.version = wrapper._version
        self.value = torch._from_functional_tensor(wrapper)
        self.is_turned = False
        """Whether the program itself has changed how it is laid out."""

    def after(self, target: Any, args: Any) -> None:
        if self.wrapper._version != self.version:
            self.version = self.wrapper._version
            self.is_turned |= bool(args) and args[0] is self.wrapper and _turns(_name(target))
            if self._restore() and args and is_functional(args[0]):
                torch._sync(args[0])  # a view of it, which has taken over the new strides

    def _restore(self) -> bool:
        """Lay it out as it was; whether that was needed."""
        torch._sync(self.wrapper)
        if self.is_turned or to_dims(self.wrapper.stride()) == to_dims(self.value.stride()):
            return False
        torch._disable_functionalization()
        try:
            laid_out = torch.ops.aten.copy.default(self.value, torch._from_functional_tensor(self.wrapper))
        finally:
            torch._enable_functionalization(reapply_views=True)
        torch._functionalize_replace(self.wrapper, laid_out)
        torch._functionalize_commit_update(self.wrapper)
        torch._sync(self.wrapper)
        return True


def _may_change(wrapper: Any) -> bool:
    return is_functional(wrapper) and not _is_contiguous(wrapper)


def _is_contiguous(tensor: Any) -> bool:
    shape, strides = to_dims(tensor.shape), to_dims(tensor.stride())
    places = zip(shape, strides, contiguous_strides(shape), strict=True)
    return all(same_dim(size, 1) or same_dim(stride, packed) for size, stride, packed in places)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


@functools.cache
def _turns(name: str) -> bool:
    """Whether a method changes how a tensor is laid out, as `t_` does."""
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") else None
    overloads = packet.overloads() if packet is not None else ()
    return any(torch.Tag.inplace_view in getattr(packet, overload).tags for overload in overloads)
