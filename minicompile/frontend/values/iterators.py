"""Iterators whose elements are known while tracing.

In: `iter()` of a sequence, dict, range, tensor; zip, enumerate, map and the like over these.
Out: elements one by one; at a graph break a real iterator that stands at the same element.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from .base import Value, fail

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer


_SIZED: dict[type, str] = {dict: "dictionary", OrderedDict: "OrderedDict", defaultdict: "dictionary", set: "Set"}
"""Containers that must not change their size while they are iterated, by Python's name for them."""


class IteratorValue(Value):
    """An iterator over a list of values that was fixed when it was made, at `position`.

    `container` is what it iterates over, so that it can be rebuilt. For a list, `elements` is the list value's own:
    what is appended while iterating is seen, as in Python.
    """

    def __init__(self, container: Value | None, elements: list[Value]) -> None:
        self.container = container
        self.elements = elements
        self.position = 0
        self.exhausted = False
        self.size = len(elements)

    def python_type(self) -> type:
        from .containers import SequenceValue

        kind = self.container.python_type() if isinstance(self.container, SequenceValue) else tuple
        return type(iter(kind())) if kind in (list, tuple) else type(iter(()))

    def _size(self, tr: Tracer) -> int:
        assert self.container is not None
        return self.container.length(tr)

    def next(self, tr: Tracer) -> Value | None:
        if self.exhausted or self.position >= len(self.elements):
            self.exhausted = True
            return None
        if self.container is not None and self.container.python_type() in _SIZED and self._size(tr) != self.size:
            fail(RuntimeError(f"{_SIZED[self.container.python_type()]} changed size during iteration"))
        tr.changed()
        self.position += 1
        return self.elements[self.position - 1]

    def items(self, tr: Tracer) -> list[Value]:
        rest = [] if self.exhausted else self.elements[self.position :]
        tr.changed()
        self.exhausted = True
        return rest

    def iterator(self, tr: Tracer) -> Value:
        return self

    def truth(self, tr: Tracer) -> bool:
        return True

    def build(self, glue: Glue) -> str:
        """The rest as a new iterator: over the container itself where its position can be set, else over a tuple."""
        from .constant import ConstantValue
        from .containers import SequenceValue

        container = self.container
        if self.exhausted:
            return "__iter__(())"
        if isinstance(container, SequenceValue) and self.elements is container.elements:
            return self._positioned(glue, container)
        if isinstance(container, ConstantValue) and type(container.value) in (range, str, bytes):
            return self._positioned(glue, container)
        rest = "".join(f"{glue.ref(element)}, " for element in self.elements[self.position :])
        return f"__iter__(({rest}))"

    def _positioned(self, glue: Glue, container: Value) -> str:
        name = glue.assign(f"__iter__({glue.ref(container)})", self)
        if self.position:
            # Behind the journal: a list that it extends is shorter until then, and a position beyond it is cut off.
            glue.late(f"{name}.__setstate__({self.position})")
        return name
