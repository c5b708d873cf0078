"""Opcodes that call and that make functions.

In: callables and arguments on the frame's stack. Out: results, from inlined frames, graph nodes or folding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .interpreter import opcode
from .values.base import NULL, NotConstant, Value, fail
from .values.containers import DictValue, SequenceValue
from .values.functions import CellValue, FunctionValue
from .values.subclasses import mapping_pairs

if TYPE_CHECKING:
    from types import CodeType

    from .frame import Frame
    from .tracer import Tracer

CallParts = tuple[Value, list[Value], dict[str, Value]]


def take_call(tr: Tracer, frame: Frame, arg: tuple[int, tuple[str, ...]]) -> CallParts:
    """Take callable and arguments of a CALL off the stack."""
    count, names = arg
    values = frame.pop_many(count)
    first, second = frame.pop_many(2)
    return _callable_parts(first, second, values, names)


def _callable_parts(first: Value, second: Value, values: list[Value], names: tuple[str, ...]) -> CallParts:
    split = len(values) - len(names)
    positional, named = values[:split], dict(zip(names, values[split:], strict=True))
    if first is NULL:
        return second, positional, named
    if second is NULL:
        return first, positional, named
    return first, [second, *positional], named


def take_call_kw(tr: Tracer, frame: Frame, count: int) -> CallParts:
    """Take the parts of a CALL_KW (3.13)."""
    names = frame.pop(tr).const(tr)
    return take_call(tr, frame, (count, names))


def take_call_ex(tr: Tracer, frame: Frame, flags: int) -> tuple[Value, Value, Value | None]:
    """Take callable, positional arguments and keyword arguments of a CALL_FUNCTION_EX off the stack."""
    named = frame.pop_raw() if flags & 1 else None
    positional = frame.pop_raw()
    first, second = frame.pop_many(2)
    return (second if first is NULL else first), positional, named


@opcode("CALL")
def _call(tr: Tracer, frame: Frame, arg: tuple[int, tuple[str, ...]]) -> None:
    fn, args, kwargs = take_call(tr, frame, arg)
    frame.push(fn.realize(tr).call(tr, args, kwargs))


@opcode("CALL_KW")
def _call_kw(tr: Tracer, frame: Frame, count: int) -> None:
    fn, args, kwargs = take_call_kw(tr, frame, count)
    frame.push(fn.realize(tr).call(tr, args, kwargs))


@opcode("CALL_FUNCTION_EX")
def _call_function_ex(tr: Tracer, frame: Frame, flags: int) -> None:
    fn, positional, named = take_call_ex(tr, frame, flags)
    args = positional.realize(tr).items(tr)
    kwargs: dict[str, Value] = {}
    if named is not None:
        mapping = named.realize(tr)
        pairs = mapping_pairs(tr, mapping)
        if pairs is None:
            raise mapping.cannot("unpacking keyword arguments")
        kwargs = {tr.key(key): value for key, value in pairs}
        if not all(isinstance(key, str) for key in kwargs):
            fail(TypeError("keywords must be strings"))
    frame.push(fn.realize(tr).call(tr, args, kwargs))


@opcode("MAKE_FUNCTION")
def _make_function(tr: Tracer, frame: Frame, flags: tuple[int, ...]) -> None:
    code = _code_constant(tr, frame.pop(tr))
    made = FunctionValue(code, frame.globals_dict, code.co_qualname)
    made.globals_base = frame.globals_base
    for flag in flags:
        set_function_part(tr, made, flag, frame.pop_raw())
    frame.push(made)


def _code_constant(tr: Tracer, value: Value) -> CodeType:
    obj = getattr(value, "obj", None)
    assert obj is not None, "a code object is on the stack for MAKE_FUNCTION"
    return obj


@opcode("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(tr: Tracer, frame: Frame, flag: int) -> None:
    made, part = frame.pop_raw(), frame.pop_raw()
    assert isinstance(made, FunctionValue)
    set_function_part(tr, made, flag, part)
    frame.push(made)


def set_function_part(tr: Tracer, made: FunctionValue, flag: int, part: Value) -> None:
    """Closure (8), annotations (4), keyword defaults (2) or defaults (1) of a function being made."""
    if flag == 8:
        cells = part.realize(tr)
        assert isinstance(cells, SequenceValue)
        made.closure = [cell for cell in cells.elements if isinstance(cell, CellValue)]
    elif flag == 4:
        made.annotations = part
    elif flag == 2:
        mapping = part.realize(tr)
        assert isinstance(mapping, DictValue)
        made.kwdefaults = dict(mapping.entries)
    else:
        made.defaults = part.realize(tr).items(tr)


__all__ = ["NotConstant", "take_call", "take_call_ex", "take_call_kw"]
