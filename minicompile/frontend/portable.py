"""Objects that another process can find again, and how it knows that they are the same.

In: what an entry consists of (guards, sources, namespaces) for `dumps`; its bytes, in another process, for `loads`.
Out: bytes; equal objects. Raises NotPortable where an object has no counterpart there, or a different one.

Plain data travels as it is. Modules, classes, functions and operators travel as a name with a fingerprint: the code of
a function; for a class what it and its bases define. The name is looked up among what the other process has imported,
and what is found there must have the same fingerprint: an edited helper or a patched method is another object. Whatever
is not listed here does not travel at all.

What is only unpacked when somebody asks for it shares these objects with what is unpacked at once, where they are
looked up and compared: it has their numbers, and can be unpacked whatever has become of their names.
"""

from __future__ import annotations

import builtins
import enum
import io
import pickle
import re
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..guards.torch_state import Snapshot
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


class Here:
    """What an entry finds in the process that recalls it.

    Attributes:
        state: torch's state, in the place of the one that was stored.
        watched: weak references, in the place of those whose end the storing process was told of.
        shared: what `dumps` has collected; each object by a function that yields it, or None if it has died.
    """

    def __init__(
        self, on_death: Callable[[], None] = lambda: None, shared: Sequence[Callable[[], Any]] = ()
    ) -> None:
        self.state = Snapshot()
        self.watched: list[weakref.ref[Any]] = []
        self.shared = shared
        self._on_death = on_death

    def has_lost(self) -> bool:
        """Whether one of the watched has died."""
        return any(reference() is None for reference in self.watched)

    def watch(self, value: Any) -> weakref.ref[Any]:
        on_death = self._on_death
        self.watched.append(weakref.ref(value, lambda _: on_death()))
        return self.watched[-1]


def dumps(value: Any, shared: list[Any] | None = None) -> bytes:
    """`shared` collects the objects that have names instead of naming them. Raises NotPortable."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, shared).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise NotPortable(str(error)) from error
    return buffer.getvalue()


def loads(data: bytes, here: Here | None = None) -> Any:
    """Raises NotPortable if anything that the value refers to is missing or different here."""
    try:
        return _Unpickler(io.BytesIO(data), here).load()
    except (pickle.UnpicklingError, AttributeError, ImportError, LookupError, EOFError, TypeError, ValueError) as error:
        raise NotPortable(f"a stored entry cannot be read: {error}") from error


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, shared: list[Any] | None) -> None:
        super().__init__(file, protocol=5)
        self._names = Names()
        self._shared = shared
        self._numbers: dict[int, int] = {}  # id of a shared object → its number
        self._owners: dict[int, Any] = {}  # id of code → the function that has it

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is torch.Tensor:
            return ("tensor", *_tensor_parts(obj))
        if kind is Snapshot:
            return ("state",)
        if isinstance(obj, weakref.ref):
            return self._reference(obj)
        if kind in _BOUND and type(obj.__self__) in _OF_STATE:
            return ("of state", obj.__name__)
        return self._shared_number(obj) if self._shared is not None and self._has_name(obj) else self._named(obj)

    def _has_name(self, obj: Any) -> bool:
        """Whether it travels by name: not what pickle itself finds again."""
        kind = type(obj)
        if kind is types.FunctionType:
            return not _is_own(obj)
        if isinstance(obj, type):
            return not (_is_own(obj) or getattr(builtins, obj.__name__, None) is obj or obj in _KNOWN_TO_PICKLE)
        return kind is types.CodeType or isinstance(obj, enum.Enum) or self._names.can_name(obj)

    def _named(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is types.FunctionType:
            self._owners[id(obj.__code__)] = obj
        if not self._has_name(obj):
            return None
        if kind is types.CodeType:
            return ("code", self._names.of(self._owner(obj)))
        if isinstance(obj, enum.Enum):
            return ("member", self._names.of(kind), obj.name)
        return ("object", self._names.of(obj))

    def _shared_number(self, obj: Any) -> Any:
        assert self._shared is not None
        if id(obj) not in self._numbers:
            self._numbers[id(obj)] = len(self._shared)
            self._shared.append(obj)
        return ("shared", self._numbers[id(obj)])

    def _reference(self, reference: weakref.ref[Any]) -> Any:
        value = reference()
        if value is None:
            raise NotPortable("an object that died cannot be stored")
        return ("weak" if reference.__callback__ is None else "watched", value)

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
    def __init__(self, file: Any, here: Here | None) -> None:
        super().__init__(file)
        self._names = Names()
        self._here = here or Here()

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        if kind == "object":
            return self._names.find(rest[0])
        if kind == "shared":
            return self._shared(rest[0])
        if kind == "code":
            return self._names.find(rest[0]).__code__
        if kind == "tensor":
            return _tensor(*rest)
        if kind == "member":
            return self._names.find(rest[0])[rest[1]]
        if kind == "state":
            return self._here.state
        if kind == "of state":
            return getattr(self._here.state, rest[0])
        if kind == "weak":
            return weakref.ref(rest[0])
        if kind == "watched":
            return self._here.watch(rest[0])
        raise NotPortable(f"a reference of an unknown kind: {kind}")


    def _shared(self, number: int) -> Any:
        value = self._here.shared[number]()
        if value is None:
            raise NotPortable("an object that an entry refers to has died")
        return value


_BOUND = (types.MethodType, types.BuiltinMethodType)
_OF_STATE = (Snapshot, torch._C._dynamo.guards.GlobalStateGuard)

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


__all__ = ["Here", "NotPortable", "dumps", "loads"]
