"""Layouts: which variables are bound and what stands on the stack where a segment starts.

In: a frame's slots and stack at a break. Out: a hashable description, and the generated function's parameter names.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType


@dataclass(frozen=True)
class Layout:
    """`names`: bound variables in order; `stack`: bottom first, True for a value, False for a NULL."""

    names: tuple[str, ...]
    stack: tuple[bool, ...] = ()

    def parameters(self) -> list[str]:
        """Names of the generated function's parameters behind `__func__`."""
        slots = [slot_name(name, index) for index, name in enumerate(self.names)]
        return slots + [f"__stack_{index}" for index, is_value in enumerate(self.stack) if is_value]


def slot_name(name: str, index: int) -> str:
    """A variable's name in the generated function: its own, unless that is no identifier or might be one of ours."""
    if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__"):
        return name
    return f"__slot_{index}"


def argument_names(code: CodeType) -> tuple[str, ...]:
    """The raw argument slots of a function: positional, keyword-only, *args, **kwargs."""
    collecting = sum(bool(code.co_flags & flag) for flag in (CO_VARARGS, CO_VARKEYWORDS))
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + collecting]


def call_like(code: CodeType, values: tuple[object, ...]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Raw argument slots as the arguments of an ordinary call."""
    positional = list(values[: code.co_argcount])
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = code.co_argcount + code.co_kwonlyargcount
    named = dict(zip(names, values[code.co_argcount : rest], strict=True))
    if code.co_flags & CO_VARARGS:
        positional.extend(values[rest])  # type: ignore[arg-type]
        rest += 1
    if code.co_flags & CO_VARKEYWORDS:
        named.update(values[rest])  # type: ignore[call-overload]
    return tuple(positional), named
