"""What generated functions call beside what is the program's own.

In: nothing. Out: names and the objects that they stand for in the namespace of every generated function; a recalled one
too, so nothing of tracing is imported.
"""

from __future__ import annotations

import functools
import math
import types
from collections import OrderedDict, defaultdict
from typing import Any

import torch

from ..torch_compat import restore_modes, save_modes

_CALLABLES: tuple[Any, ...] = (min, max, abs, round, int, float, bool, str, repr, format, math)
ARITHMETIC: dict[str, Any] = {f"__{call.__name__}__": call for call in _CALLABLES}
"""What texts over numbers call."""

CONTAINERS = (OrderedDict, defaultdict, dict, list, tuple, set, frozenset)
"""Builtin containers whose subclasses' objects are looked into."""


def contents_of(container: Any) -> Any:
    """What an object of a subclass of a builtin container holds, as a plain one: no method of its class runs."""
    kind = type(container)
    if issubclass(kind, dict):
        return dict((OrderedDict if issubclass(kind, OrderedDict) else dict).items(container))
    base: Any = next(base for base in (list, tuple, set, frozenset) if issubclass(kind, base))
    return base(base.__iter__(container))


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a class of the program's as one of torch's own."""
    return as_tensor_class(tensor, torch.Tensor)


def as_tensor_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """A tensor as one of a class: a view of it."""
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return torch.Tensor.as_subclass(tensor, cls)


HELPERS: dict[str, Any] = {
    "__type__": type,
    "__from_numpy__": torch.from_numpy,
    "__plain_tensor__": plain_tensor,
    "__contents__": contents_of,
    "__len__": len,
    "__getattr__": getattr,
    **ARITHMETIC,
}
"""What `expr()` texts call; belongs into the namespace of every generated function that uses them."""


def _annotations_of(parts: Any) -> dict[str, Any]:
    return parts if isinstance(parts, dict) else dict(zip(parts[::2], parts[1::2], strict=True))


GLUE_HELPERS: dict[str, Any] = {
    "__iter__": iter,
    "__next__": next,
    "__slice__": slice,
    "__tuple_new__": tuple.__new__,
    "__cell__": types.CellType,
    "__function__": types.FunctionType,
    "__method__": types.MethodType,
    "__partial__": functools.partial,
    "__object_new__": object.__new__,
    "__object_setattr__": object.__setattr__,
    "__object_delattr__": object.__delattr__,
    "__setattr__": setattr,
    "__annotations_of__": _annotations_of,
    "__set_grad__": torch._C._set_grad_enabled,
    "__inference_mode__": torch.inference_mode,
    "__save_modes__": save_modes,
    "__restore_modes__": restore_modes,
    **{f"__base_{base.__name__}__": base for base in CONTAINERS},
}
"""What glue texts call; in the namespace of every entry."""
