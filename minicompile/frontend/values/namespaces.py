"""types.SimpleNamespace: attributes and nothing else, though the class is written in C.

In: such objects from outside, calls of the class. Out: objects like those of a Python class.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from .base import Value
from .callables import rule
from .objects import ObjectValue, set_line

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class NamespaceValue(ObjectValue):
    """An object of the class itself."""

    def has_plain_reader(self, reader: Any) -> bool:
        return True

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        from ..operators import COMPARISONS

        if op in COMPARISONS:
            raise self.cannot("comparing")
        return super().binary(tr, op, other, swapped)

    def build(self, glue: Glue) -> str:
        name = glue.assign(f"{glue.keep(types.SimpleNamespace)}()", self)
        for key, value in self.attributes.items():
            glue.fill(functools.partial(set_line, glue, name, key, value))
        return name


@rule(types.SimpleNamespace)
def _namespace(tr: Tracer, **attributes: Value) -> Value:
    made = NamespaceValue(types.SimpleNamespace, None, None)
    made.attributes.update(attributes)
    tr.changed()
    return made


def outside_namespace(tr: Tracer, obj: types.SimpleNamespace, source: Source) -> Value:
    """One that existed before the frame."""
    tr.guard_type(source, obj)
    return NamespaceValue(types.SimpleNamespace, obj, source)


__all__ = ["outside_namespace"]
