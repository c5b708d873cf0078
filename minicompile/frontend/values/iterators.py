"""Iterators that the program makes: over containers, and `zip`, `map` and the like over other iterators.

In: `iter()` of a sequence, dict, range, tensor or object with `__getitem__`; calls of enumerate, zip, map, filter.
Out: elements one by one, each when it is asked for, as the program may see; at a graph break a real iterator that
stands at the same element.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..breaks import Restart, UserError, unsupported
from .base import Value, fail
from .constant import ConstantValue
from .real_iterators import CHANGED, END, DictRest

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer
    from .containers import DictValue, SequenceValue, SetValue


class Iterator(Value):
    """Base class of iterators: everything in terms of `next`."""

    def iterator(self, tr: Tracer) -> Value:
        return self

    def truth(self, tr: Tracer) -> bool:
        return True

    def items(self, tr: Tracer) -> list[Value]:
        return self.rest(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        """As in Python, elements behind the one that is found are left in the iterator."""
        from ..operators import equal

        while (element := self.next(tr)) is not None:
            if equal(tr, element.realize(tr), item):
                return True
        return False

    def getattr(self, tr: Tracer, name: str) -> Value:
        from .container_methods import ITERATOR_METHODS
        from .containers import method_of

        return method_of(tr, self, name, ITERATOR_METHODS)


def one_by_one(tr: Tracer, value: Value) -> Iterable[Value]:
    """The elements. What computes them is asked for each when it is needed: its code may look at what is filled with
    them, and may raise in between."""
    value = value.realize(tr)
    return steps(tr, value.iterator(tr).realize(tr)) if value.computes_elements else value.items(tr)


def steps(tr: Tracer, iterator: Value) -> Iterable[Value]:
    """What an iterator still has, each asked for when its predecessor has been dealt with."""
    while (item := iterator.next(tr)) is not None:
        yield item


class IteratorValue(Iterator):
    """An iterator over a list of values that was fixed when it was made, at `position`.

    `container` is what it iterates over, so that it can be rebuilt. For a list, `elements` is the list value's own:
    what is appended while iterating is seen, as in Python.
    """

    def __init__(self, container: Value | None, elements: list[Value]) -> None:
        self.container = container
        self.elements = elements
        self.position = 0
        self.exhausted = False

    def python_type(self) -> type:
        from .containers import SequenceValue

        kind = self.container.python_type() if isinstance(self.container, SequenceValue) else tuple
        return type(iter(kind())) if kind in (list, tuple) else type(iter(()))

    def check_container(self, tr: Tracer) -> None:
        """Before a step: refuse what Python refuses by now."""

    def next(self, tr: Tracer) -> Value | None:
        if self.exhausted:
            return None
        self.check_container(tr)
        if self.position >= len(self.elements):
            self.exhausted = True
            return None
        tr.changed()
        self.position += 1
        return self.elements[self.position - 1]

    def items(self, tr: Tracer) -> list[Value]:
        rest = [] if self.exhausted else self.elements[self.position :]
        tr.changed()
        self.exhausted = True
        return rest

    def build(self, glue: Glue) -> str:
        """The rest as a new iterator: over the container itself where its position can be set, else over a tuple."""
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
        name = glue.assign(f"{container.method_text(glue, '__iter__')}()", self)
        if self.position:
            # Behind the journal: a list that it extends is shorter until then, and a position beyond it is cut off.
            glue.late(f"{name}.__setstate__({self.position})")
        return name


class ReversedValue(Iterator):
    """`reversed()` of a list or a tuple. As Python's, it counts down, and reads a list as it is by then."""

    def __init__(self, container: SequenceValue) -> None:
        self.container = container
        self.position = len(container.elements) - 1

    def python_type(self) -> type:
        return type(reversed(self.container.kind()))

    def next(self, tr: Tracer) -> Value | None:
        at, elements = self.position, self.container.elements
        tr.changed()
        self.position = at - 1 if 0 <= at < len(elements) else -1
        return elements[at] if 0 <= at < len(elements) else None

    def build(self, glue: Glue) -> str:
        name = glue.assign(f"{glue.keep(reversed)}({glue.ref(self.container)})", self)
        glue.late(f"{name}.__setstate__({self.position})")  # behind the journal, as in `IteratorValue`
        return name


class SetIteratorValue(IteratorValue):
    """An iterator over a set, begun at root instruction `step`. The set must not grow or shrink before the end."""

    def __init__(self, owner: SetValue, elements: list[Value], step: int) -> None:
        super().__init__(owner, elements)
        self.owner = owner
        self.keys = list(owner.entries)
        self.step = step

    def python_type(self) -> type:
        return type(iter(set()))

    def check_container(self, tr: Tracer) -> None:
        if len(self.owner.entries) != len(self.keys):
            fail(RuntimeError("Set changed size during iteration"), is_exact=True)
        if list(self.owner.entries) != self.keys:  # then Python goes on with whatever stands where it stands
            raise Restart(self.step, unsupported("A set gets other elements while it is iterated."))

    def build(self, glue: Glue) -> str:
        if self.exhausted:
            return "__iter__(())"
        keys = "".join(f"{glue.ref(element)}, " for element in self.elements[self.position :])
        return f"{glue.keep(DictRest)}({glue.ref(self.owner)}, 'keys', ({keys}), {len(self.keys)})"


class DictIteratorValue(Iterator):
    """An iterator over a dict's keys, values or items, begun at root instruction `step`: the keys as they were, the
    values as they are now."""

    def __init__(self, owner: DictValue, what: str, step: int) -> None:
        self.owner = owner
        self.what = what
        self.step = step
        self.keys = list(owner.entries)
        self.picture = iter(owner.entries)
        self.position = 0
        self.exhausted = False

    def python_type(self) -> type:
        return type(iter(getattr(self.owner.kind(), self.what)()))

    def next(self, tr: Tracer) -> Value | None:
        is_ordered = self.owner.kind is OrderedDict
        if is_ordered and self.position >= len(self.keys):  # it looks ahead, and does not care what happens then
            self.exhausted = True
        if self.exhausted:
            return None
        if is_ordered:
            self._check_order()
        else:
            self._check_keys()
        if self.position >= len(self.keys):
            self.exhausted = True
            return None
        tr.changed()
        self.position += 1
        return self.owner.element(tr, self.what, self.keys[self.position - 1])

    def _check_order(self) -> None:
        """An OrderedDict must stay as it is, order included."""
        now = list(self.owner.entries)
        if now != self.keys:
            self.exhausted = True
            fail(RuntimeError("OrderedDict mutated during iteration"), is_exact=bool(now))

    def _check_keys(self) -> None:
        """A dict must keep its size. With other keys Python goes on with whatever stands where it stands."""
        if len(self.owner.entries) != len(self.keys):
            fail(RuntimeError("dictionary changed size during iteration"), is_exact=True)
        try:
            key = next(self.picture, END)
        except RuntimeError:
            key = CHANGED
        if key is not (self.keys[self.position] if self.position < len(self.keys) else END):
            raise Restart(self.step, unsupported("A dict gets other keys while it is iterated."))

    def build(self, glue: Glue) -> str:
        if self.exhausted:
            return "__iter__(())"
        keys = "".join(f"{glue.ref(self.owner.key_value(glue.tr, key))}, " for key in self.keys[self.position :])
        return f"{glue.keep(DictRest)}({glue.ref(self.owner)}, {self.what!r}, ({keys}), {len(self.keys)})"


class ItemIteratorValue(Iterator):
    """What `iter()` gives for an object with `__getitem__` and no `__iter__`."""

    computes_elements = True

    def __init__(self, owner: Value) -> None:
        self.owner = owner
        self.position: int | None = 0

    def python_type(self) -> type:
        return _ITEM_ITERATOR

    def next(self, tr: Tracer) -> Value | None:
        if self.position is None:
            return None
        try:
            item = self.owner.getitem(tr, ConstantValue(self.position))
        except UserError as error:
            if not issubclass(error.cls, (IndexError, StopIteration)):
                raise
            self.position = None
            return None
        tr.changed()
        self.position += 1
        return item

    def build(self, glue: Glue) -> str:
        if self.position is None:
            return "__iter__(())"
        name = glue.assign(f"__iter__({glue.ref(self.owner)})", self)
        glue.late(f"{name}.__setstate__({self.position})")
        return name


class _Items:
    def __getitem__(self, index: int) -> int:
        return index


_ITEM_ITERATOR = type(iter(_Items()))


class EnumerateValue(Iterator):
    """`enumerate(inner, count)`."""

    computes_elements = True

    def __init__(self, inner: Value, count: int) -> None:
        self.inner = inner
        self.count = count

    def python_type(self) -> type:
        return enumerate

    def next(self, tr: Tracer) -> Value | None:
        from .containers import SequenceValue

        item = self.inner.next(tr)
        if item is None:
            return None
        tr.changed()
        self.count += 1
        return SequenceValue(tuple, [ConstantValue(self.count - 1), item])

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(enumerate)}({glue.ref(self.inner)}, {self.count})"


class ZipValue(Iterator):
    """`zip(*inner, strict=strict)`."""

    computes_elements = True

    def __init__(self, inner: list[Value], *, strict: bool) -> None:
        self.inner = inner
        self.strict = strict

    def python_type(self) -> type:
        return zip

    def next(self, tr: Tracer) -> Value | None:
        from .containers import SequenceValue

        row: list[Value] = []
        for iterator in self.inner:
            item = iterator.next(tr)
            if item is None:
                if self.strict:
                    self._require_all_exhausted(tr, len(row))
                return None
            row.append(item)
        return SequenceValue(tuple, list(row)) if row else None

    def _require_all_exhausted(self, tr: Tracer, at: int) -> None:
        """The iterator number `at` is exhausted: so must be all others."""
        if at:
            fail(ValueError(f"zip() argument {at + 1} is shorter than {_arguments(at)}"))
        for index, other in enumerate(self.inner[1:], 1):
            if other.next(tr) is not None:
                fail(ValueError(f"zip() argument {index + 1} is longer than {_arguments(index)}"))

    def build(self, glue: Glue) -> str:
        parts = [*map(glue.ref, self.inner), f"strict={self.strict}"]
        return f"{glue.keep(zip)}({', '.join(parts)})"


def _arguments(count: int) -> str:
    return "argument 1" if count == 1 else f"arguments 1-{count}"


class MapValue(Iterator):
    """`map(fn, *inner)`."""

    computes_elements = True

    def __init__(self, fn: Value, inner: list[Value]) -> None:
        self.fn = fn
        self.inner = inner

    def python_type(self) -> type:
        return map

    def next(self, tr: Tracer) -> Value | None:
        row: list[Value] = []
        for iterator in self.inner:
            item = iterator.next(tr)
            if item is None:
                return None
            row.append(item)
        return self.fn.realize(tr).call(tr, row, {})

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(map)}({', '.join(map(glue.ref, (self.fn, *self.inner)))})"


class FilterValue(Iterator):
    """`filter(fn, inner)`."""

    computes_elements = True

    def __init__(self, fn: Value, inner: Value) -> None:
        self.fn = fn
        self.inner = inner

    def python_type(self) -> type:
        return filter

    def next(self, tr: Tracer) -> Value | None:
        fn = self.fn.realize(tr)
        is_none = isinstance(fn, ConstantValue) and fn.value is None
        while (item := self.inner.next(tr)) is not None:
            if (item if is_none else fn.call(tr, [item], {})).realize(tr).truth(tr):
                return item
        return None

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(filter)}({glue.ref(self.fn)}, {glue.ref(self.inner)})"
