"""Constants as guards see them: equal only if no program can tell them apart.

In: any object. Out: whether it may be baked into a compiled piece by value (`is_constant`), and a hashable key that
two constants share exactly if they are interchangeable (`constant_key`).

Python's `==` is too kind for this: `1 == True == 1.0`, `0.0 == -0.0`, and NaN is not even equal to itself, while a
program that divides by it, prints it or asks its type sees the difference. So the key holds the exact type, and floats
by their bits.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Callable
from typing import Any

import torch

_SINGLETONS = (type(None), type(Ellipsis), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format)
_BY_EQUALITY = (int, bool, str, bytes, torch.device, torch.qscheme, re.Pattern)
_BAKED = (*_SINGLETONS, *_BY_EQUALITY, float, complex, range)
_NUMPY_NUMBERS = frozenset(
    {
        "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64",
        "complex128",
    }
)  # fmt: skip
_CONTAINERS: dict[type, Callable[[Any], Any]] = {
    tuple: lambda value: tuple(map(constant_key, value)),
    torch.Size: lambda value: tuple(map(constant_key, value)),
    frozenset: lambda value: frozenset(map(constant_key, value)),
    slice: lambda value: tuple(map(constant_key, (value.start, value.stop, value.step))),
    range: lambda value: (value.start, value.stop, value.step),
    re.Match: lambda value: (value.re, value.string, value.pos, value.endpos, value.regs),
}


def is_constant(value: Any) -> bool:
    """Whether the value may be guarded by `ConstantGuard`: exact built-in types only, containers of constants included.

    Subclasses do not count: they may carry attributes and overridden methods. Enum members do: there is one of each;
    and NumPy's numbers.
    """
    kind = type(value)
    if kind in (tuple, frozenset, torch.Size):
        return all(map(is_constant, value))
    if kind is slice:
        return all(map(is_constant, (value.start, value.stop, value.step)))
    if kind is re.Match:
        return type(value.string) in (str, bytes)
    return kind in _BAKED or isinstance(value, enum.Enum) or is_numpy_number(value)


def is_numpy_number(value: Any) -> bool:
    """Whether the value is one of NumPy's scalars that a tensor could hold."""
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ in _NUMPY_NUMBERS


def is_singleton(value: Any) -> bool:
    """Whether `is` decides equality for this constant."""
    return type(value) in _SINGLETONS or type(value) is bool or isinstance(value, enum.Enum)


def constant_key(value: Any) -> Any:
    """A hashable key, equal for two constants exactly if their types and (bitwise) values agree.

    Total: a value that is no constant gets a key that only the same object has, so that comparing is always safe.
    """
    kind = type(value)
    if kind is float:
        return (kind, struct.pack("d", value))
    if kind is complex:
        return (kind, struct.pack("dd", value.real, value.imag))
    if kind in _CONTAINERS:
        return (kind, _CONTAINERS[kind](value))
    if kind in _BY_EQUALITY or kind in _SINGLETONS:
        return (kind, value)
    if is_numpy_number(value):
        return (kind, value.tobytes())
    return (kind, id(value))
