"""Types as annotations write them: `Optional[int]`, `list[str]`, `int | None`.

In: objects of `typing`, subscripts of them and of builtin classes. Out: the real objects, which are immutable and known
while tracing. An annotation over a class that the frame has made is not: it is made in the glue.
"""

from __future__ import annotations

import operator
import types
import typing
from typing import TYPE_CHECKING, Any

from .base import NotConstant, Value, fail
from .classes import ClassValue, OpaqueClassItem
from .constant import ConstantValue
from .containers import SequenceValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

GENERIC_MODULES = frozenset({"builtins", "collections", "collections.abc", "typing", "re", "contextlib"})
"""Where a class's subscripts are types alone, and run no code of the program."""


def is_annotation(obj: Any) -> bool:
    """Whether an object is a type as annotations write it, and no class."""
    return type(obj).__module__ == "typing" or isinstance(obj, (types.GenericAlias, types.UnionType))


class AnnotationValue(Value):
    """One of these objects, `made`."""

    def __init__(self, made: Any, source: Source | None = None) -> None:
        self.made = made
        self.source = source

    def python_type(self) -> type:
        return type(self.made)

    def const(self, tr: Tracer) -> Any:
        return self.made

    def truth(self, tr: Tracer) -> bool:
        return bool(self.made)

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.made, name)

    def getattr(self, tr: Tracer, name: str) -> Value:
        try:
            return tr.constant(getattr(self.made, name))
        except AttributeError as error:
            fail(error)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return subscripted(tr, self, self.made, key)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if op is not operator.or_:
            return None
        try:
            written = written_type(other)
            return AnnotationValue(op(written, self.made) if swapped else op(self.made, written))
        except NotConstant:
            return None

    def build(self, glue: Glue) -> str:
        return glue.keep(self.made)

    def classes(self) -> tuple[Any, ...] | None:
        """The classes that `isinstance` takes it for; None if it takes it for none."""
        if isinstance(self.made, types.UnionType) or typing.get_origin(self.made) is typing.Union:
            return typing.get_args(self.made)
        origin = typing.get_origin(self.made)
        return (origin,) if isinstance(origin, type) and not typing.get_args(self.made) else None


def written_type(value: Value) -> Any:
    """The object that a part of an annotation is. Raises NotConstant."""
    if type(value) is ClassValue:
        return value.cls
    if isinstance(value, SequenceValue) and value.kind in (list, tuple):
        return value.kind(map(_written_item, value.elements))
    if isinstance(value, AnnotationValue):
        return value.made
    if isinstance(value, ConstantValue):
        return value.value
    raise NotConstant


def _written_item(value: Value) -> Any:
    from .base import Lazy

    if isinstance(value, Lazy):
        if value.value is None:
            raise NotConstant
        value = value.value
    return written_type(value)


def subscripted(tr: Tracer, owner: Value, made: Any, key: Value) -> Value:
    """`owner[key]`; `made` is what the owner stands for."""
    if isinstance(key, SequenceValue):
        key = SequenceValue(key.kind, [element.realize(tr) for element in key.elements])
    try:
        return AnnotationValue(made[written_type(key)])
    except NotConstant:
        return OpaqueClassItem(owner, key)
    except TypeError as error:
        fail(error, is_exact=True)


__all__ = ["GENERIC_MODULES", "AnnotationValue", "is_annotation", "subscripted"]
