"""Objects that another process can find again, and how it knows that they are the same.

In: what an entry consists of (guards, sources, namespaces) for `dumps`; its bytes, in another process, for `loads`.
Out: bytes; equal objects. Raises NotPortable where an object has no counterpart there, or a different one.

Plain data travels as it is. Modules, classes, functions and operators travel as a name with a fingerprint: the code of
a function; for a class what it and its bases define. The name is looked up among what the other process has imported,
and what is found there must have the same fingerprint: an edited helper or a patched method is another object. Whatever
is not listed here does not travel at all.
"""

from __future__ import annotations

import builtins
import enum
import io
import pickle
import re
import types
from typing import Any

import torch

from .fingerprints import Names, NotPortable

_OWN = "minicompile."
_PLAIN_MODULES = (
    "minicompile.ir.", "minicompile.frontend.", "minicompile.codegen.", "minicompile.guards.",
    "minicompile.runtime.runs", "minicompile.runtime.written",
)  # fmt: skip
_PLAIN_TYPES = (
    torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format, slice, range, complex, re.Pattern,
)  # fmt: skip
_SMALL = 1 << 16
"""Elements of the largest tensor that a graph holds as a constant and that is stored with it."""


def dumps(value: Any) -> bytes:
    """Raises NotPortable."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise NotPortable(str(error)) from error
    return buffer.getvalue()


def loads(data: bytes, state: Any = None) -> Any:
    """The value; `state` takes the place of the guard on torch's global state.

    Raises NotPortable if anything that the value refers to is missing or different here.
    """
    try:
        return _Unpickler(io.BytesIO(data), state).load()
    except (pickle.UnpicklingError, AttributeError, ImportError, LookupError, EOFError, TypeError, ValueError) as error:
        raise NotPortable(f"a stored entry cannot be read: {error}") from error


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self._names = Names()
        self._owners: dict[int, Any] = {}  # id of code → the function that has it

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is types.FunctionType:
            self._owners[id(obj.__code__)] = obj
            return None if _is_own(obj) else ("object", self._names.of(obj))
        if kind is types.CodeType:
            return ("code", self._names.of(self._owner(obj)))
        if kind is torch.Tensor:
            return ("tensor", *_tensor_parts(obj))
        if isinstance(obj, type):
            is_plain = _is_own(obj) or getattr(builtins, obj.__name__, None) is obj or obj in _KNOWN_TO_PICKLE
            return None if is_plain else ("object", self._names.of(obj))
        if kind.__name__ == "GlobalStateGuard":
            return ("state",)
        if isinstance(obj, enum.Enum):
            return ("member", self._names.of(kind), obj.name)
        return ("object", self._names.of(obj)) if self._names.can_name(obj) else None

    def _owner(self, code: types.CodeType) -> Any:
        if id(code) not in self._owners:
            raise NotPortable(f"the code of {code.co_name} belongs to no function that has a name")
        return self._owners[id(code)]

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is types.MappingProxyType:
            return (_proxy, (dict(obj),))
        is_plain = kind in _PLAIN_TYPES or kind.__module__.startswith(_PLAIN_MODULES)
        if is_plain or isinstance(obj, (type, types.FunctionType)):
            return NotImplemented
        raise NotPortable(f"an object of {kind.__module__}.{kind.__qualname__} cannot be stored")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, state: Any) -> None:
        super().__init__(file)
        self._names = Names()
        self._state = state

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == "object":
            return self._names.find(rest[0])
        if kind == "code":
            return self._names.find(rest[0]).__code__
        if kind == "tensor":
            return _tensor(*rest)
        if kind == "member":
            return self._names.find(rest[0])[rest[1]]
        if kind == "state":
            return self._state
        raise NotPortable(f"a reference of an unknown kind: {kind}")


_KNOWN_TO_PICKLE = (type(None), type(Ellipsis), type(NotImplemented))


def _is_own(obj: Any) -> bool:
    return (obj.__module__ or "").startswith(_OWN)


def _proxy(mapping: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(mapping)


def _tensor_parts(tensor: torch.Tensor) -> tuple[Any, ...]:
    is_plain = tensor.layout is torch.strided and tensor.is_contiguous() and not tensor.is_quantized
    if not is_plain or tensor.device.type != "cpu" or tensor.requires_grad or tensor.numel() > _SMALL:
        raise NotPortable("a graph holds a large or unusual tensor as a constant")
    return tensor.dtype, tuple(tensor.shape), bytes(tensor.reshape(-1).view(torch.uint8).tolist())


def _tensor(dtype: torch.dtype, shape: tuple[int, ...], data: bytes) -> torch.Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).clone().view(dtype).reshape(shape)


__all__ = ["NotPortable", "dumps", "loads"]
