"""Names and fingerprints of the objects that programs share: modules, classes, functions, operators.

In: an object. Out: a `Name`: where it is found, and what it must look like there; in another process, the object again.

A fingerprint holds what tracing takes for granted once it knows that an object is that object: a function's code, the
methods and constants of a class and its bases. Values that tracing reads off an object (defaults, attributes, globals)
are guarded one by one, and not part of it.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import hashlib
import sys
import types
from typing import Any, NamedTuple

import torch

from ..guards.constants import is_constant

_HEAP_TYPE = 1 << 9
_VERSIONED = frozenset({"torch", *sys.stdlib_module_names})
"""Packages whose version is part of every key. Of others only Python code can be compared."""
_HOMES = ("torch", "torch._C._nn", "torch._C", "torch._C._linalg", "torch._C._fft", "torch._C._special", "builtins")
_DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
_NATIVE = (types.BuiltinFunctionType, types.MethodWrapperType, *_DESCRIPTORS)
_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_UNSEEN = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl"})
_INNER = ("fget", "__func__", "func", "__wrapped__", "__minicompile_original__")
"""Where a function is that a property, class method or decorator stands in front of."""
_DEPTH = 4


class NotPortable(Exception):
    """The object cannot be found again in another process, or is not the same there."""


class Name(NamedTuple):
    """Attribute `path` of an imported module, and the fingerprint of what is there."""

    module: str
    path: tuple[str, ...]
    fingerprint: str


class Names:
    """Names objects and finds named ones; remembers what it has seen, so it is for one point in time.

    An object has one `Name`, however often it is asked for: pickle stores that once.
    """

    def __init__(self) -> None:
        self._prints: dict[int, tuple[Any, str]] = {}
        self._named: dict[int, tuple[Any, Name]] = {}
        self._found: dict[int, tuple[Name, Any]] = {}
        self._members: dict[type, str] = {}  # of a class alone: nn.Module's stand in each of its heirs' fingerprints

    def can_name(self, obj: Any) -> bool:
        return isinstance(obj, (types.ModuleType, type, types.FunctionType, *_NATIVE, *_OPERATORS))

    def of(self, obj: Any) -> Name:
        """Raises NotPortable for an object without a name."""
        if id(obj) not in self._named:
            self._named[id(obj)] = (obj, self._name(obj))
        return self._named[id(obj)][1]

    def _name(self, obj: Any) -> Name:
        for module, path in _places(obj):
            if _at(module, path) is obj:
                return Name(module, path, self.fingerprint(obj))
        raise NotPortable(f"{getattr(obj, '__qualname__', type(obj).__name__)} has no name to find it by")

    def find(self, name: Name) -> Any:
        """Raises NotPortable if there is nothing of that name here, or something else."""
        if id(name) not in self._found:
            self._found[id(name)] = (name, self._object(name))
        return self._found[id(name)][1]

    def _object(self, name: Name) -> Any:
        obj = _at(name.module, name.path)
        if obj is None or not self.can_name(obj) or self.fingerprint(obj) != name.fingerprint:
            raise NotPortable(f"{name.module}.{'.'.join(name.path)} is not what it was")
        return obj

    def fingerprint(self, obj: Any) -> str:
        known = self._prints.get(id(obj))
        if known is None:
            known = self._prints[id(obj)] = (obj, self._fingerprint(obj))
        return known[1]

    def _fingerprint(self, obj: Any) -> str:
        if isinstance(obj, types.ModuleType):
            return f"module {obj.__name__}"
        if isinstance(obj, types.FunctionType):
            return f"function {code_digest(obj.__code__)} {[_cell_text(cell) for cell in obj.__closure__ or ()]}"
        if isinstance(obj, type):
            return f"class {_digest(self._class_parts(obj))}"
        if isinstance(obj, _OPERATORS):
            return _operator_name(obj)
        return _native_name(obj)

    def _class_parts(self, cls: type) -> list[str]:
        if type(cls) not in (type, *_METACLASSES) and not _is_versioned(cls.__module__):
            raise NotPortable(f"the class {cls.__qualname__} has a metaclass of its own")
        parts = [self._digest_alone(base) for base in cls.__mro__]
        if not _is_versioned(cls.__module__):  # what it was registered as
            parts.append(repr([name for name in collections.abc.__all__ if _is_a(cls, name)]))
        return parts

    def _digest_alone(self, cls: type) -> str:
        if cls not in self._members:
            self._members[cls] = _digest([self._own_parts(cls)])
        return self._members[cls]

    def _own_parts(self, cls: type) -> str:
        head = f"{cls.__module__}.{cls.__qualname__}:{type(cls).__qualname__}"
        if not cls.__flags__ & _HEAP_TYPE:
            if not _is_versioned(cls.__module__):
                raise NotPortable(f"the class {cls.__qualname__} is not Python's")
            return head
        members = [f"{key}={_content(value, cls)}" for key, value in vars(cls).items() if key not in _UNSEEN]
        return "\n".join([head, *members])


# ---- places ----


def _places(obj: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Where an object may be found: where it says itself, under another name in its module, in torch's own modules."""
    if isinstance(obj, types.ModuleType):
        return [(obj.__name__, ())]
    if isinstance(obj, _OPERATORS):
        return [("torch", ("ops", *_operator_name(obj).split(".")))]
    owner = getattr(obj, "__objclass__", None)
    if owner is not None:
        return [(owner.__module__, (*owner.__qualname__.split("."), obj.__name__))]
    module = getattr(obj, "__module__", None) or ""
    own = tuple(obj.__qualname__.split("."))
    places = [(module, own), *((module, (*own, inner)) for inner in _INNER)]
    for home in (module, "types"):
        places += [(home, (name,)) for name, value in vars(sys.modules.get(home, types)).items() if value is obj]
    return places + [(home, (obj.__name__,)) for home in _HOMES]


def _at(module: str, path: tuple[str, ...]) -> Any:
    found: Any = sys.modules.get(module)
    for name in path:
        found = getattr(found, name, None)
    return found


def _is_versioned(module: str | None) -> bool:
    return (module or "builtins").split(".")[0] in _VERSIONED


# ---- contents ----


def code_digest(code: types.CodeType) -> str:
    """Everything about a code object: instructions, constants, names, and the lines that messages show."""
    parts = [
        code.co_filename, code.co_qualname, repr(code.co_firstlineno), repr(code.co_flags), repr(code.co_linetable),
        repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)), repr(code.co_exceptiontable),
        repr(code.co_code), repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)),
        *map(_constant_text, code.co_consts),
    ]  # fmt: skip
    return _digest(parts)


def _cell_text(cell: types.CellType) -> str:
    """What is in a closure cell, where that tells functions of one code apart (F.max_pool1d and F.max_pool2d)."""
    try:
        value = cell.cell_contents
    except ValueError:
        return "empty"
    if isinstance(value, types.FunctionType):
        return code_digest(value.__code__)
    return _constant_text(value) if is_constant(value) and not isinstance(value, enum.Enum) else _kind(value)


def _constant_text(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant_text, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant_text, value)))}}}"
    return f"{type(value).__name__} {value!r}"


def _content(value: Any, cls: type, depth: int = _DEPTH) -> str:
    """What a member of a class is, as far as looking it up depends on it."""
    if isinstance(value, types.FunctionType):
        return code_digest(value.__code__)
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {_content(value.__func__, cls, depth)}"
    if isinstance(value, property):
        return f"property {[_content(part, cls, depth) for part in (value.fget, value.fset, value.fdel)]}"
    if isinstance(value, functools.cached_property):
        return f"cached_property {_content(value.func, cls, depth)}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if is_constant(value):
        return _constant_text(value)
    if type(value) in (list, tuple, set, dict) and depth:
        items = [_content(item, cls, depth - 1) for item in (value.items() if isinstance(value, dict) else value)]
        return f"{type(value).__name__} {sorted(items) if isinstance(value, set) else items}"
    if isinstance(value, (type, *_NATIVE)):
        return f"{value.__module__ if isinstance(value, type) else type(value).__name__} {value.__qualname__}"
    if hasattr(type(value), "__get__") and not _is_versioned(cls.__module__):
        raise NotPortable(f"the class {cls.__qualname__} has a descriptor of {type(value).__qualname__}")
    return _kind(value)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _native_name(obj: Any) -> str:
    owner = getattr(obj, "__objclass__", None) or getattr(obj, "__self__", None)
    home = owner if isinstance(owner, (type, types.ModuleType)) or owner is None else type(owner)
    place = getattr(home, "__module__", None) if isinstance(home, type) else getattr(home, "__name__", obj.__module__)
    if not _is_versioned(place):
        raise NotPortable(f"{obj.__qualname__} is not Python code, and of no known version")
    return f"{type(obj).__name__} {place}.{obj.__qualname__}"


def _operator_name(obj: Any) -> str:
    name = str(obj)
    if not name.startswith(("aten.", "prims.")):
        raise NotPortable(f"{name} is an operator from outside torch")
    return name


def _is_a(cls: type, name: str) -> bool:
    try:
        return issubclass(cls, getattr(collections.abc, name))
    except TypeError:
        return False


_METACLASSES = (type(collections.abc.Sized), enum.EnumMeta, type(torch.Tensor), type(torch.nn.Parameter))


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
