"""`collections.deque`.

In: calls of the class, deques from outside. Out: the present elements; every mutation of one from outside is in the
journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .base import NotConstant, Value, fail
from .callables import rule
from .constant import ConstantValue, specialized
from .container_methods import SEQUENCE_METHODS
from .containers import Method, SequenceValue, errors_of_the_user, index_of, method_of
from .iterators import IteratorValue, one_by_one

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer


class DequeValue(SequenceValue):
    """A deque. `changes` counts mutations, which iterators over it do not bear."""

    def __init__(self, elements: list[Value], maxlen: int | None, source: Source | None = None) -> None:
        super().__init__(deque, elements, source)
        self.maxlen = maxlen
        self.changes = 0
        self._cut(left=True)

    @property
    def mutable(self) -> bool:
        return True

    def const(self, tr: Tracer) -> Any:
        raise NotConstant

    def getitem(self, tr: Tracer, key: Value) -> Value:
        index = index_of(tr, key)
        if isinstance(index, slice):
            fail(TypeError("sequence index must be integer, not 'slice'"), is_exact=True)
        with errors_of_the_user():
            return self.elements[index]

    def getattr(self, tr: Tracer, name: str) -> Value:
        return ConstantValue(self.maxlen) if name == "maxlen" else method_of(tr, self, name, _METHODS)

    def iterator(self, tr: Tracer) -> Value:
        return DequeIteratorValue(self, list(self.elements))

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if isinstance(other, DequeValue):
            left, right = (other, self) if swapped else (self, other)
            plain = (SequenceValue(list, list(side.elements)) for side in (left, right))
            from ..operators import COMPARISONS, binary

            return binary(tr, op, *plain) if op in COMPARISONS else None
        if isinstance(other, SequenceValue):  # neither equal to a list nor to be added to one
            return ConstantValue(op.__name__ == "ne") if op.__name__ in ("eq", "ne") else None
        return None

    def change(self, tr: Tracer, text: str, *operands: Value, left: bool = False) -> Value:
        """A mutation has been made of `elements`: cut off what is too much, at the left or right end."""
        self.changes += 1
        self._cut(left)
        return tr.mutated(self, text, *operands)

    def _cut(self, left: bool) -> None:
        too_many = len(self.elements) - self.maxlen if self.maxlen is not None else 0
        if too_many > 0:
            del self.elements[slice(0, too_many) if left else slice(len(self.elements) - too_many, None)]

    def build(self, glue: Glue) -> str:
        name = glue.assign(f"{glue.keep(deque)}((), {self.maxlen})", self)
        if self.elements:
            glue.fill(lambda: f"{name}.extend(({''.join(f'{glue.ref(element)}, ' for element in self.elements)}))")
        return name


class DequeIteratorValue(IteratorValue):
    """An iterator over a deque, which must not change meanwhile."""

    def __init__(self, owner: DequeValue, elements: list[Value]) -> None:
        super().__init__(None, elements)
        self.owner = owner
        self.changes = owner.changes

    def next(self, tr: Tracer) -> Value | None:
        if self.owner.changes != self.changes:  # at the end, too
            fail(RuntimeError("deque mutated during iteration"), is_exact=True)
        return super().next(tr)


@rule(deque)
def _deque(tr: Tracer, iterable: Value | None = None, maxlen: Value | None = None) -> Value:
    items = iterable.realize(tr).items(tr) if iterable is not None else []
    tr.changed()
    return DequeValue(list(items), specialized(tr, maxlen.realize(tr)).const(tr) if maxlen is not None else None)


# ---- methods ----


def _append(tr: Tracer, owner: DequeValue, item: Value) -> Value:
    owner.elements.append(item)
    return owner.change(tr, "{0}.append({1})", item, left=True)


def _appendleft(tr: Tracer, owner: DequeValue, item: Value) -> Value:
    owner.elements.insert(0, item)
    return owner.change(tr, "{0}.appendleft({1})", item)


def _each(tr: Tracer, owner: DequeValue, items: Value) -> Iterable[Value]:
    """The elements; of the deque itself, those that it has now."""
    return list(owner.elements) if items.realize(tr) is owner else one_by_one(tr, items)


def _extend(tr: Tracer, owner: DequeValue, items: Value) -> Value:
    for item in _each(tr, owner, items):
        _append(tr, owner, item)
    return ConstantValue(None)


def _extendleft(tr: Tracer, owner: DequeValue, items: Value) -> Value:
    for item in _each(tr, owner, items):
        _appendleft(tr, owner, item)
    return ConstantValue(None)


def _pop(tr: Tracer, owner: DequeValue) -> Value:
    if not owner.elements:
        fail(IndexError("pop from an empty deque"), is_exact=True)
    item = owner.elements.pop()
    owner.change(tr, "{0}.pop()")
    return item


def _popleft(tr: Tracer, owner: DequeValue) -> Value:
    if not owner.elements:
        fail(IndexError("pop from an empty deque"), is_exact=True)
    item = owner.elements.pop(0)
    owner.change(tr, "{0}.popleft()")
    return item


def _rotate(tr: Tracer, owner: DequeValue, steps: Value | None = None) -> Value:
    count = index_of(tr, steps) if steps is not None else 1
    turned = deque(owner.elements)
    turned.rotate(count)
    owner.elements[:] = turned
    return owner.change(tr, "{0}.rotate({1})", ConstantValue(count))


def _insert(tr: Tracer, owner: DequeValue, index: Value, item: Value) -> Value:
    if owner.maxlen is not None and len(owner.elements) >= owner.maxlen:
        fail(IndexError("deque already at its maximum size"), is_exact=True)
    where = index_of(tr, index)
    owner.elements.insert(where, item)
    return owner.change(tr, "{0}.insert({1}, {2})", ConstantValue(where), item)


def _copy(tr: Tracer, owner: DequeValue) -> Value:
    return DequeValue(list(owner.elements), owner.maxlen)


def _counting(method: Method) -> Method:
    """A method of lists that does the same on a deque."""

    def run(tr: Tracer, owner: DequeValue, *args: Value) -> Value:
        owner.changes += 1
        return method(tr, owner, *args)

    return run


_METHODS: dict[str, Method] = {
    **{name: SEQUENCE_METHODS[name] for name in ("__len__", "__contains__", "__iter__", "__getitem__")},
    **{name: SEQUENCE_METHODS[name] for name in ("index", "count")},
    **{name: _counting(SEQUENCE_METHODS[name]) for name in ("clear", "reverse", "remove", "__setitem__")},
    "append": _append, "appendleft": _appendleft, "extend": _extend, "extendleft": _extendleft, "pop": _pop,
    "popleft": _popleft, "rotate": _rotate, "insert": _insert, "copy": _copy, "__copy__": _copy,
}  # fmt: skip
