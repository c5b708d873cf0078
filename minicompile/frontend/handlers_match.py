"""Opcodes of `match`.

In: the subject on top of the stack. Out: what the patterns ask of it: its kind, its length, attributes, items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .breaks import UserError
from .interpreter import opcode
from .values.base import fail
from .values.callables import class_object
from .values.constant import ConstantValue
from .values.containers import DictValue, SequenceValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer
    from .values.base import Value

_MAPPING, _SEQUENCE = 1 << 6, 1 << 5
"""Py_TPFLAGS_MAPPING and Py_TPFLAGS_SEQUENCE."""
_MATCHES_ITSELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes whose single positional pattern is the object itself."""


def _has_flag(frame: Frame, tr: Tracer, flag: int) -> ConstantValue:
    return ConstantValue(bool(frame.stack[-1].realize(tr).python_type().__flags__ & flag))


@opcode("MATCH_MAPPING")
def _match_mapping(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(_has_flag(frame, tr, _MAPPING))


@opcode("MATCH_SEQUENCE")
def _match_sequence(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(_has_flag(frame, tr, _SEQUENCE))


@opcode("GET_LEN")
def _get_len(tr: Tracer, frame: Frame, arg: Any) -> None:
    frame.push(ConstantValue(frame.stack[-1].realize(tr).length(tr)))


@opcode("MATCH_KEYS")
def _match_keys(tr: Tracer, frame: Frame, arg: Any) -> None:
    """Push the values of the keys on top of the stack, or None if one is missing."""
    keys, subject = frame.stack[-1].realize(tr), frame.stack[-2].realize(tr)
    if not isinstance(subject, DictValue):
        raise subject.cannot("matching the keys")
    found = [subject.lookup(tr, key) for key in keys.items(tr)]
    values = [value for value in found if value is not None]
    frame.push(SequenceValue(tuple, values) if len(values) == len(found) else ConstantValue(None))


@opcode("MATCH_CLASS")
def _match_class(tr: Tracer, frame: Frame, count: int) -> None:
    """Push the attributes that the patterns are for, or None if the subject is none of the class."""
    from .values.builtins import is_instance

    names = [str(name.realize(tr).const(tr)) for name in frame.pop(tr).items(tr)]
    kind, subject = frame.pop(tr), frame.pop(tr)
    if not is_instance(tr, subject, kind):
        frame.push(ConstantValue(None))
        return
    found = _attributes(tr, subject, kind, count, names)
    frame.push(SequenceValue(tuple, found) if found is not None else ConstantValue(None))


def _attributes(tr: Tracer, subject: Value, kind: Value, count: int, names: list[str]) -> list[Value] | None:
    cls = class_object(kind)
    positional: list[str] = []
    result: list[Value] = []
    if count and issubclass(cls, _MATCHES_ITSELF) and not hasattr(cls, "__match_args__"):
        if count > 1:
            fail(TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern ({count} given)"), is_exact=True)
        result.append(subject)
    elif count:
        known = kind.getattr(tr, "__match_args__").realize(tr).items(tr) if hasattr(cls, "__match_args__") else []
        if count > len(known):
            message = f"{cls.__name__}() accepts {len(known)} positional sub-patterns ({count} given)"
            fail(TypeError(message), is_exact=True)
        positional = [str(name.realize(tr).const(tr)) for name in known[:count]]
    for name in (*positional, *names):
        try:
            result.append(subject.getattr(tr, name))
        except UserError as error:
            if not issubclass(error.cls, AttributeError):
                raise
            return None
    return result
