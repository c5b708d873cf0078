"""Texts: `str`, `repr`, `format`, f-strings, `%`, `str.format` and `str.join`.

In: values. Out: a constant text, or one that the entry computes because numbers in it are open (see computed.py): a
batch size in a log line must not compile the function once a size.
"""

from __future__ import annotations

import operator
import re
import string
import types
from typing import TYPE_CHECKING, Any

import torch

from ..breaks import unsupported_call
from ..class_lookup import static_lookup
from .base import Args, Kwargs, NotConstant, Value
from .callables import RULES, rule
from .classes import ClassValue
from .computed import ComputedValue, computed, formatted_number, joined
from .constant import ConstantValue, OpenValue, SymIntValue, specialized
from .containers import DictValue, SequenceValue
from .objects import ObjectValue

if TYPE_CHECKING:
    from ..tracer import Tracer


def _text_rule(fn: Any, how: str) -> None:
    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        if len(args) == 1 and not kwargs:
            return text_of(tr, args[0].realize(tr), fn, how)
        return tr.fold(fn, *[specialized(tr, arg.realize(tr)) for arg in args], **kwargs)

    RULES[fn] = trace


for _fn, _how in ((str, "__str__"), (repr, "__repr__"), (ascii, "__repr__")):
    _text_rule(_fn, _how)


def text_of(tr: Tracer, value: Value, fn: Any, how: str) -> Value:
    """`str(value)`, `repr(value)`, `ascii(value)`: the object's own method, or the constant's text."""
    own = value.text(tr, how)
    if own is None and fn is not ascii:
        own = _text_of_container(tr, value)
    if own is not None:
        return tr.fold(ascii, own) if fn is ascii else own
    try:
        if isinstance(value, SymIntValue):
            return computed(tr, str, "str({0})", [value])
        return tr.fold(fn, specialized(tr, value))
    except NotConstant:
        raise unsupported_call(f"{fn.__name__}()", "needs the text of an object that is not a constant") from None


def _text_of_container(tr: Tracer, value: Value) -> Value | None:
    """The text of a list, tuple, size or dict with objects or open numbers in it. None for anything else."""
    if tr.texts.count(id(value)):
        raise unsupported_call("repr()", "meets a container that holds itself")
    tr.texts.append(id(value))
    try:
        parts = _parts_of_container(tr, value)
        return None if parts is None else joined(tr, parts)
    finally:
        tr.texts.pop()


_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), torch.Size: ("torch.Size([", "])")}


def _parts_of_container(tr: Tracer, value: Value) -> list[Value] | None:
    def text(item: Value) -> Value:
        return text_of(tr, item.realize(tr), repr, "__repr__")

    if isinstance(value, SequenceValue) and value.kind in _BRACKETS:
        opening, closing = _BRACKETS[value.kind]
        comma = "," * (value.kind is tuple and len(value.elements) == 1)
        parts = _between(", ", [[text(item)] for item in value.elements])
        return [ConstantValue(opening), *parts, ConstantValue(comma + closing)]
    if isinstance(value, DictValue) and value.kind is dict:
        items = value.entries.items()
        pairs = [[text(value.key_value(tr, key)), ConstantValue(": "), text(item)] for key, item in items]
        return [ConstantValue("{"), *_between(", ", pairs), ConstantValue("}")]
    return None


def _between(separator: str, groups: list[list[Value]]) -> list[Value]:
    """The groups one behind the other, with the separator between each two."""
    result: list[Value] = []
    for index, group in enumerate(groups):
        result += [ConstantValue(separator), *group] if index else group
    return result


@rule(format)
def _format(tr: Tracer, value: Value, spec: Value | None = None) -> Value:
    return formatted(tr, value.realize(tr), spec or ConstantValue(""))


def formatted(tr: Tracer, value: Value, spec: Value) -> Value:
    """`format(value, spec)`. Raises NotConstant, or Break."""
    if not isinstance(value, (ObjectValue, ClassValue)):
        if isinstance(value, OpenValue) and isinstance(spec.realize(tr), ConstantValue):
            return formatted_number(tr, value, spec.realize(tr).const(tr))
        if isinstance(value, (SequenceValue, DictValue)) and spec.realize(tr).const(tr) == "":
            return text_of(tr, value, str, "__str__")
        return tr.fold(format, specialized(tr, value), spec)
    own = static_lookup(value.python_type(), "__format__")
    if isinstance(own, types.FunctionType) and isinstance(value, ObjectValue):
        return value.method(tr, "__format__", own).call(tr, [spec], {})
    if own is not object.__format__ or spec.realize(tr).const(tr):
        raise unsupported_call("format()", "needs the text of an object that is not a constant")
    return text_of(tr, value, str, "__str__")


# ---- texts with open numbers put in ----


def filled_in(tr: Tracer, left: Value, right: Value) -> Value | None:
    """`"%d of %s" % (n, "all")` where numbers are open; None for anything else."""
    is_tuple = isinstance(right, SequenceValue) and right.kind is tuple
    parts = [part.realize(tr) for part in right.elements] if is_tuple else [right]  # type: ignore[attr-defined]
    places = ", ".join(f"{{{index}}}" for index in range(1, len(parts) + 1))
    return _computed_text(tr, operator.mod, f"{{0}} % ({places},)", left, parts)


def formatted_by(tr: Tracer, template: str, args: Args) -> Value | None:
    """`template.format(*args)` where numbers are open and fields are plain (`{}`, `{1:>4}`); None for anything else."""
    values = [arg.realize(tr) for arg in args]
    if not any(isinstance(value, OpenValue) for value in values):
        return None
    parts: list[Value] = []
    for count, (literal, name, spec, conversion) in enumerate(string.Formatter().parse(template)):
        parts.append(ConstantValue(literal))
        if name is None:
            continue
        place = int(name) if name.isdecimal() else count if name == "" else len(values)
        if place >= len(values) or conversion or "{" in (spec or ""):
            return None
        parts.append(formatted(tr, values[place], ConstantValue(spec)))
    return joined(tr, parts)


def looked_at(fn: Any, named: Kwargs) -> Kwargs:
    """Of what `template.format(**named)` gets, what the template names; for any other function, everything."""
    if not isinstance(fn, types.BuiltinMethodType) or fn.__name__ != "format" or type(fn.__self__) is not str:
        return named
    names = _names_in(fn.__self__)
    return {name: value for name, value in named.items() if name in names}


def _names_in(template: str) -> set[str]:
    try:
        fields = [(name, spec) for _, name, spec, _ in string.Formatter().parse(template) if name is not None]
    except ValueError:  # it is the call's to say what is wrong
        return set()
    nested = [name for _, spec in fields for name in _names_in(spec or "")]
    return {re.split(r"[.\[]", name, maxsplit=1)[0] for name, _ in fields} | set(nested)


def _computed_text(tr: Tracer, fill: Any, template: str, text: Value, parts: list[Value]) -> Value | None:
    is_known = all(isinstance(part, (ConstantValue, OpenValue)) for part in parts)
    if not is_known or not any(isinstance(part, OpenValue) for part in parts):
        return None
    if not isinstance(text, ConstantValue) or type(text.value) is not str:
        return None
    return computed(tr, lambda text, *values: fill(text, values), template, [text, *parts])


def joined_by(tr: Tracer, separator: str, items: Value) -> Value | None:
    """`separator.join(items)` where texts are open; None for anything else."""
    if not isinstance(items, SequenceValue):
        return None
    parts = [part.realize(tr) for part in items.elements]
    if not any(isinstance(part, ComputedValue) for part in parts):
        return None
    if not all(isinstance(part, (ConstantValue, ComputedValue)) and part.python_type() is str for part in parts):
        return None
    return joined(tr, _between(separator, [[part] for part in parts]))


def call_text(tr: Tracer, fn: Any, args: Args) -> Value | None:
    """A method of a text, called with open numbers or texts; None for anything else."""
    if not isinstance(fn, types.BuiltinMethodType) or type(fn.__self__) is not str:
        return None
    if fn.__name__ == "join" and len(args) == 1:
        return joined_by(tr, fn.__self__, args[0].realize(tr))
    return formatted_by(tr, fn.__self__, args) if fn.__name__ == "format" else None
