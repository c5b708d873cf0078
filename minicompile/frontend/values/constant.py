"""Constants and symbolic integers.

In: literals, guarded outside values, results of folding. Out: folded constants; size arithmetic on torch.SymInt (what
is no int or no number of its own is in computed.py).
"""

from __future__ import annotations

import enum
import operator
import re
import sys
from typing import TYPE_CHECKING, Any

import torch

from ...guards.constants import is_numpy_number
from ..breaks import FACTS_HINT, Break, BreakKind, UserError, unsupported
from .base import Args, Kwargs, Value, fail

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

LITERALS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
FOREIGN = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, range, slice)
UNCHANGING = (type(sys.version_info), type(torch.__version__), re.Pattern, re.Match, torch._C._SDPBackend)
"""Classes of libraries, made in C or with no attributes of their own, whose objects nothing can change."""


def is_constant_object(obj: Any) -> bool:
    """Whether an object becomes a ConstantValue: immutable, and known by value alone."""
    kind = type(obj)
    is_of_known_kind = kind in LITERALS or kind in FOREIGN or kind in UNCHANGING
    return is_of_known_kind or isinstance(obj, enum.Enum) or is_numpy_number(obj)


class ConstantValue(Value):
    """A Python constant: everything about it is known while tracing."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def const(self, tr: Tracer) -> Any:
        return self.value

    def describe(self) -> str:
        return repr(self.value)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.value)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if isinstance(self.value, enum.Enum):
            from .enums import member_attribute

            found = member_attribute(tr, self, name)
            if found is not None:
                return found
        try:
            return tr.constant(getattr(self.value, name))
        except AttributeError as error:
            fail(error, is_exact=True)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.value, name)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return tr.fold(lambda value, k: value[k], self, key)

    def items(self, tr: Tracer) -> list[Value]:
        try:
            return [tr.constant(item) for item in self.value]
        except TypeError as error:
            fail(error, is_exact=True)

    def length(self, tr: Tracer) -> int:
        try:
            return len(self.value)
        except TypeError as error:
            fail(error, is_exact=True)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return tr.fold(lambda value, i: i in value, self, item).truth(tr)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        fail(TypeError(f"'{type(self.value).__name__}' object is not callable"), is_exact=True)

    def build(self, glue: Glue) -> str:
        return glue.constant(self.value)


class OpenValue(Value):
    """A number or a text that only the call knows."""

    def const(self, tr: Tracer) -> Any:
        from .base import NotConstant

        raise NotConstant

    def specialize(self, tr: Tracer) -> Any:
        """What it is now, fixed from here on: a guard says so."""
        raise NotImplementedError


class SymIntValue(OpenValue):
    """An integer that only the call knows: a size with dynamic shapes, or arithmetic on sizes."""

    def __init__(self, sym: torch.SymInt, source: Source | None = None) -> None:
        self.sym = sym
        self.source = source

    def python_type(self) -> type:
        return int

    @property
    def now(self) -> int:
        """What it is in the call that is traced. Relies on nothing."""
        return _hinted(self.sym)

    def specialize(self, tr: Tracer) -> int:
        if self.sym.node.maybe_as_int() is None:  # once fixed, it stays as it is
            tr.changed()
        return int(self.sym)

    def truth(self, tr: Tracer) -> bool:
        return bool(self.sym != 0)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if op in _FRACTIONS or isinstance(getattr(other, "value", None), float) or _is_inverse(op, other, swapped):
            from .computed import arithmetic
            from .data_floats import data_arithmetic

            if self.sym.node.hint is None:
                return data_arithmetic(tr, op, *((other, self) if swapped else (self, other)))
            return arithmetic(tr, op, other, self) if swapped else arithmetic(tr, op, self, other)
        number = other.sym if isinstance(other, SymIntValue) else other.const(tr) if _is_number(other) else None
        if number is None:
            return None
        number = int(number) if isinstance(number, bool) else number
        try:
            result = _exact(op, number, self.sym) if swapped else _exact(op, self.sym, number)
        except TypeError:  # what ints can and symbolic ints cannot
            return tr.fold(op, *((other, specialized(tr, self)) if swapped else (specialized(tr, self), other)))
        except (ValueError, ZeroDivisionError) as error:
            fail(error)
        return tr.number(result)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in ("real", "numerator"):
            return self
        return ConstantValue(self.specialize(tr)).getattr(tr, name)

    def build(self, glue: Glue) -> str:
        return glue.size(self.sym)


def _hinted(sym: torch.SymInt) -> int:
    """The value while tracing. Raises Break for a number that depends on data, which has none."""
    if sym.node.hint is None:
        raise Break(BreakKind.VALUE, "The value of a number that depends on data is needed.", FACTS_HINT)
    return int(sym.node.hint)


_FRACTIONS = frozenset({operator.truediv, operator.itruediv})


def _is_inverse(op: Any, other: Value, swapped: bool) -> bool:
    """A power with a negative exponent, which gives a float."""
    exponent = getattr(other, "value", None)
    return op in (operator.pow, operator.ipow) and not swapped and isinstance(exponent, int) and exponent < 0


def _exact(op: Any, left: Any, right: Any) -> Any:
    """The operation on symbolic ints. Torch joins `(n // 2) // -2` into `n // -4`, which is another number, so division
    by something negative, which a guard makes sure of, turns both signs."""
    if op in (operator.floordiv, operator.mod) and isinstance(right, (int, torch.SymInt)) and right < 0:
        result = op(-left, -right)
        return result if op is operator.floordiv else -result
    return op(left, right)


def _is_number(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, (int, float))


def specialized(tr: Tracer, value: Value) -> Value:
    """The value with symbolic numbers fixed, for operations that need the number itself."""
    return ConstantValue(value.specialize(tr)) if isinstance(value, OpenValue) else value


__all__ = ["ConstantValue", "OpenValue", "SymIntValue", "UserError", "is_constant_object", "specialized", "unsupported"]
