"""Iterators that already exist when a segment starts: the one of a loop that broke in its body, or the caller's.

In: a range, list or tuple iterator on the segment's stack or in a variable. Out: its next element, which can be looked
at without taking it; the journal takes it, behind the graph.

Not over a list once a list has been changed in the same trace, which may be the one that is iterated, and not over a
dict or set once it has been changed.

One element only: if the loop comes round a second time in one trace, the graph breaks there and the iterator is
advanced for real. So a loop whose body breaks is compiled once for all rounds, not once a round.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...guards.kinds import Frame as GuardFrame
from ...guards.kinds import Guard, Scope
from ..sources import Source
from .base import Lazy, Value

if TYPE_CHECKING:
    from ..tracer import Tracer

END = object()
"""What `peek` gives for an exhausted iterator."""
CHANGED = object()
"""What it gives where Python refuses to go on, because a dict or set has another size now."""


class DictRest:
    """The rest of an iteration over a dict or set that was begun while tracing; as strict with changes as Python's
    own."""

    __slots__ = ("keys", "owner", "size", "what")

    def __init__(self, owner: Any, what: str, keys: tuple[Any, ...], size: int) -> None:
        self.owner = owner
        self.what = what
        self.keys = list(reversed(keys))
        self.size = size

    def __iter__(self) -> DictRest:
        return self

    def peek(self) -> Any:
        """The next element. Raises RuntimeError if the dict has changed its size."""
        if len(self.owner) != self.size:
            self.size = -1
            raise RuntimeError(f"{_NAMES.get(type(self.owner), 'dictionary changed size')} during iteration")
        if not self.keys:
            return END
        key = self.keys[-1]
        if key not in self.owner and not isinstance(self.owner, set):
            raise RuntimeError("dictionary keys changed during iteration")
        return key if self.what == "keys" else self.owner[key] if self.what == "values" else (key, self.owner[key])

    def __next__(self) -> Any:
        item = self.peek()
        if item is END:
            raise StopIteration
        self.keys.pop()
        return item


_NAMES: dict[type, str] = {OrderedDict: "OrderedDict mutated", set: "Set changed size"}
KINDS: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())), DictRest)


def peek(iterator: Any) -> Any:
    """The element that `next` would give, without taking it; END if there is none, CHANGED if it would raise."""
    if type(iterator) is DictRest:
        try:
            return iterator.peek()
        except RuntimeError:
            return CHANGED
    _, (container, *_), *state = iterator.__reduce__()
    index = state[0] if state and state[0] is not None else 0
    return container[index] if index < len(container) else END


@dataclass(frozen=True)
class PeekSource(Source):
    """The next element of the iterator in `base`."""

    base: Source

    def expr_over(self, base: str) -> str:
        return f"__peek__({base})"

    def path(self) -> str:
        return f"next element of {self.base.path()}"

    def bindings(self) -> dict[str, Any]:
        return {**self.base.bindings(), "__peek__": peek}


@dataclass(frozen=True)
class ExhaustedGuard(Guard):
    """Whether an iterator has nothing left."""

    source: PeekSource
    exhausted: bool
    rank: ClassVar[int] = 10
    structural: ClassVar[bool] = True

    def condition(self, scope: Scope) -> str:
        item = scope.read(self.source)
        if self.exhausted:
            return f"{item} is {scope.keep(END)}"
        return f"{item} is not {scope.keep(END)} and {item} is not {scope.keep(CHANGED)}"

    def miss(self, frame: GuardFrame) -> str | None:
        item = frame.value(self.source)
        if item is CHANGED:
            return f"what {self.source.base.describe()} goes through has another size now"
        if (item is END) == self.exhausted:
            return None
        return f"{self.source.base.describe()} {'has more elements' if self.exhausted else 'is exhausted'} now"

    def __str__(self) -> str:
        return f"{self.source.base} is {'exhausted' if self.exhausted else 'not exhausted'}"


class RealIteratorValue(Value):
    """An iterator from outside."""

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source
        self.advanced = False

    def python_type(self) -> type:
        return type(self.obj)

    def iterator(self, tr: Tracer) -> Value:
        return self

    def truth(self, tr: Tracer) -> bool:
        return True

    def next(self, tr: Tracer) -> Value | None:
        is_over_list = isinstance(self.obj, type(iter([])))
        has_changed = is_over_list and tr.has_changed_a_list()
        has_changed |= type(self.obj) is DictRest and tr.has_changed(self.obj.owner)
        if self.advanced or has_changed:
            raise self.cannot("iterating a second time")
        assert self.source is not None
        source = PeekSource(self.source)
        item = peek(self.obj)
        if item is CHANGED:
            raise self.cannot("iterating, as what it goes through has changed,")
        tr.guard(ExhaustedGuard(source, item is END))
        if item is END:
            return None
        self.advanced = True
        tr.mutated(self, "__next__({0})")
        return Lazy(item, source)
