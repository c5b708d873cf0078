"""Iterators that already exist when a segment starts: the one of a loop that broke in its body, or the caller's.

In: a range, list or tuple iterator on the segment's stack or in a variable. Out: its next elements, which can be looked
at without taking them; the journal takes them, behind the graph.

Not over a list once a list has been changed in the same trace, which may be the one that is iterated, and not over a
dict or set once it has been changed.

Of an iterator on the stack one element only: if its loop comes round a second time in one trace, the graph breaks there
and the iterator is advanced for real. So a loop whose body breaks is compiled once for all rounds, not once a round.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...guards.kinds import Frame as GuardFrame
from ...guards.kinds import Guard, Scope
from ..sources import Source, StackSource
from .base import Lazy, Value

if TYPE_CHECKING:
    from ..tracer import Tracer

END = object()
"""What `peek` gives for an exhausted iterator."""
CHANGED = object()
"""What it gives where Python refuses to go on, because a dict or set has another size now."""


class DictRest:
    """The rest of an iteration over a dict or set that was begun while tracing; as strict with changes as Python's
    own, which goes on for it unless something had changed already."""

    __slots__ = ("keys", "owner", "real", "size", "what")

    def __init__(self, owner: Any, what: str, keys: tuple[Any, ...], size: int) -> None:
        self.owner = owner
        self.what = what
        self.keys = list(reversed(keys))
        self.size = size
        self.real = _iterator_behind(owner, what, size - len(keys)) if self._is_unchanged() else None

    def _is_unchanged(self) -> bool:
        if type(self.owner) not in (dict, OrderedDict, defaultdict, set) or len(self.owner) != self.size:
            return False
        return [*reversed([*self.owner])][: len(self.keys)] == self.keys

    def __iter__(self) -> DictRest:
        return self

    def peek(self, ahead: int = 0) -> Any:
        """The element behind the next `ahead`. Raises RuntimeError where Python would, or soon."""
        if self.real is not None:
            rest = self.real.__reduce__()[1][0]
            return rest[ahead] if ahead < len(rest) else END
        if len(self.owner) != self.size:
            self.size = -1
            raise RuntimeError(f"{_NAMES.get(type(self.owner), 'dictionary changed size')} during iteration")
        if ahead >= len(self.keys):
            return END
        key = self.keys[-1 - ahead]
        if key not in self.owner and not isinstance(self.owner, set):
            raise RuntimeError("dictionary keys changed during iteration")
        return key if self.what == "keys" else self.owner[key] if self.what == "values" else (key, self.owner[key])

    def __next__(self) -> Any:
        if self.real is not None:
            return next(self.real)
        item = self.peek()
        if item is END:
            raise StopIteration
        self.keys.pop()
        return item


def _iterator_behind(owner: Any, what: str, count: int) -> Any:
    """An iterator of Python's own that has gone past the first `count` elements."""
    iterator = iter(owner) if type(owner) is set else iter(getattr(owner, what)())
    for _ in range(count):
        next(iterator)
    return iterator


_NAMES: dict[type, str] = {OrderedDict: "OrderedDict mutated", set: "Set changed size"}
KINDS: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())), DictRest, itertools.count)


def peek(iterator: Any, ahead: int = 0) -> Any:
    """The element that `next` would give after `ahead` others, without taking any; END if there is none, CHANGED if it
    would raise."""
    if type(iterator) is DictRest:
        try:
            return iterator.peek(ahead)
        except RuntimeError:
            return CHANGED
    if type(iterator) is itertools.count:
        return _counted(iterator, ahead)
    _, (container, *_), *state = iterator.__reduce__()
    index = ahead + (state[0] if state and state[0] is not None else 0)
    return container[index] if index < len(container) else END


def _counted(iterator: Any, ahead: int) -> Any:
    """The number that a counter of ints comes to, which its text tells: `count(3)`, `count(3, 2)`."""
    try:
        start, *step = map(int, repr(iterator)[6:-1].split(","))
    except ValueError:  # it counts something else
        return CHANGED
    return start + ahead * (step[0] if step else 1)


@dataclass(frozen=True)
class PeekSource(Source):
    """The element of the iterator in `base` that comes after the next `ahead`."""

    base: Source
    ahead: int = 0

    def expr_over(self, base: str) -> str:
        return f"__peek__({base}, {self.ahead})" if self.ahead else f"__peek__({base})"

    def path(self) -> str:
        which = f"element {self.ahead + 1} from here" if self.ahead else "next element"
        return f"{which} of {self.base.path()}"

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
        self.taken = 0
        """How many elements the frame has taken, which the glue takes for real behind the graph."""

    def python_type(self) -> type:
        return type(self.obj)

    def iterator(self, tr: Tracer) -> Value:
        return self

    def truth(self, tr: Tracer) -> bool:
        return True

    def items(self, tr: Tracer) -> list[Value]:
        if isinstance(self.source, StackSource) or type(self.obj) is itertools.count:
            raise self.cannot("iterating to the end")
        return self.rest(tr)

    def next(self, tr: Tracer) -> Value | None:
        is_over_list = isinstance(self.obj, type(iter([])))
        has_changed = is_over_list and tr.has_changed_a_list()
        has_changed |= type(self.obj) is DictRest and tr.has_changed(self.obj.owner)
        if self.taken and isinstance(self.source, StackSource):
            raise self.cannot("iterating a second time")
        if has_changed:
            raise self.cannot("iterating, as what it goes through may have changed,")
        assert self.source is not None
        source = PeekSource(self.source, self.taken)
        item = peek(self.obj, self.taken)
        if item is CHANGED:
            raise self.cannot("iterating, as what it goes through has changed,")
        tr.guard(ExhaustedGuard(source, item is END))
        if item is END:
            return None
        self.taken += 1
        tr.mutated(self, "__next__({0})")
        return Lazy(item, source)
