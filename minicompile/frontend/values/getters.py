"""`operator.itemgetter`, `attrgetter` and `methodcaller`, `functools.cmp_to_key`: callables made from something else.

In: calls of these classes, and their objects from outside. Out: what calling them does.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from .base import Args, Kwargs, Value, fail
from .callables import rule
from .constant import ConstantValue
from .containers import SequenceValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

class GetterValue(Value):
    """One of the three. `kind` is the class, `args` and `kwargs` what it was made with."""

    def __init__(self, kind: type, args: Args, kwargs: Kwargs, source: Source | None = None) -> None:
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.source = source

    def python_type(self) -> type:
        return self.kind

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if len(args) != 1 or kwargs:
            fail(TypeError(f"{self.kind.__name__} expected 1 argument, got {len(args)}"))
        owner = args[0].realize(tr)
        if self.kind is operator.methodcaller:
            method = owner.getattr(tr, self.args[0].realize(tr).const(tr)).realize(tr)
            return method.call(tr, self.args[1:], self.kwargs)
        get = _item if self.kind is operator.itemgetter else _attribute
        found = [get(tr, owner, key.realize(tr)) for key in self.args]
        return found[0] if len(found) == 1 else SequenceValue(tuple, found)

    def build(self, glue: Glue) -> str:
        parts = [*map(glue.ref, self.args), *(f"{key}={glue.ref(value)}" for key, value in self.kwargs.items())]
        return f"{glue.keep(self.kind)}({', '.join(parts)})"


def _item(tr: Tracer, owner: Value, key: Value) -> Value:
    return owner.getitem(tr, key)


def _attribute(tr: Tracer, owner: Value, path: Value) -> Value:
    for name in path.const(tr).split("."):
        owner = owner.realize(tr).getattr(tr, name)
    return owner


def _maker(kind: Any) -> None:
    @rule(kind)
    def make(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        if not args or (kwargs and kind is not operator.methodcaller):
            fail(TypeError(f"{kind.__name__} expected at least 1 argument, got 0"))
        return GetterValue(kind, list(args), kwargs)


KINDS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
for _kind in KINDS:
    _maker(_kind)


def outside_getter(tr: Tracer, obj: Any, source: Source) -> Value | None:
    """One from outside that was made with constants; it cannot change, so its identity is all there is to guard."""
    reduced = obj.__reduce__()
    kind, args = reduced[0], reduced[1]
    if kind not in KINDS or not all(isinstance(arg, (int, str, slice)) for arg in args):
        return None
    tr.guard_identity(source, obj)
    return GetterValue(kind, [ConstantValue(arg) for arg in args], {}, source)


class ComparisonKeyValue(Value):
    """`functools.cmp_to_key(compare)`, or with `wrapped` the key that it makes for an object."""

    def __init__(self, compare: Value, wrapped: Value | None = None) -> None:
        self.compare = compare
        self.wrapped = wrapped

    def describe(self) -> str:
        return "a key of cmp_to_key()"

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return ComparisonKeyValue(self.compare, args[0])

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        from ..operators import COMPARISONS, binary

        if op not in COMPARISONS or swapped or not isinstance(other, ComparisonKeyValue):
            return None
        assert self.wrapped is not None and other.wrapped is not None
        order = self.compare.realize(tr).call(tr, [self.wrapped, other.wrapped], {}).realize(tr)
        return binary(tr, op, order, ConstantValue(0))

    def build(self, glue: Glue) -> str:
        made = f"{glue.keep(functools.cmp_to_key)}({glue.ref(self.compare)})"
        return made if self.wrapped is None else f"{made}({glue.ref(self.wrapped)})"


@rule(functools.cmp_to_key)
def _cmp_to_key(tr: Tracer, mycmp: Value) -> Value:
    return ComparisonKeyValue(mycmp)


__all__ = ["KINDS", "GetterValue", "outside_getter"]
