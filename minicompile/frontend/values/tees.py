"""`itertools.tee`: iterators that share what another one has yielded.

In: a call of it. Out: iterators that ask the common one for an element when the first of them needs it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

from ..breaks import Restart, unsupported
from .base import Value, fail
from .callables import rule
from .containers import SequenceValue, index_of
from .iterators import Iterator

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer


class TeeValue(Iterator):
    """One of them. `shared`: what has come out of `source` so far, the same list in all."""

    def __init__(self, source: Value, shared: list[Value], position: int, step: int) -> None:
        self.common = source
        self.shared = shared
        self.position = position
        self.step = step

    def python_type(self) -> type:
        return type(itertools.tee(())[0])

    def describe(self) -> str:
        return "an iterator of itertools.tee()"

    def next(self, tr: Tracer) -> Value | None:
        if self.position == len(self.shared):
            item = self.common.next(tr)
            if item is None:
                return None
            self.shared.append(item)
        self.position += 1
        tr.changed()
        return self.shared[self.position - 1]

    def build(self, glue: Glue) -> NoReturn:
        raise Restart(self.step, unsupported("An iterator of itertools.tee() is still in use when the graph ends."))


@rule(itertools.tee)
def _tee(tr: Tracer, iterable: Value, n: Value | None = None) -> Value:
    count = index_of(tr, n) if n is not None else 2
    if count < 0:
        fail(ValueError("n must be >= 0"), is_exact=True)
    source = iterable.realize(tr)
    iterator, shared, position = source.iterator(tr).realize(tr), [], 0
    if isinstance(source, TeeValue):  # a tee of a tee shares with it
        iterator, shared, position = source.common, source.shared, source.position
    return SequenceValue(tuple, [TeeValue(iterator, shared, position, tr.root_step) for _ in range(count)])
