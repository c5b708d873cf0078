"""`heapq` and `bisect` on lists.

In: lists whose elements can be compared while tracing. Out: the list rearranged, for constants as one write of all its
elements, for others (pairs of a number and a tensor) by `heapq`'s own steps in Python.
"""

from __future__ import annotations

import bisect
import heapq
from typing import TYPE_CHECKING, Any

from .. import polyfills
from ..breaks import unsupported_call
from .base import NotConstant, Value, fail
from .callables import rule
from .constant import ConstantValue
from .containers import SequenceValue

if TYPE_CHECKING:
    from ..tracer import Tracer


def _heap_rule(fn: Any) -> None:
    @rule(fn)
    def trace(tr: Tracer, heap: Value, *items: Value) -> Value:
        owner = heap.realize(tr)
        if not isinstance(owner, SequenceValue) or owner.kind is not list:
            raise unsupported_call(f"heapq.{fn.__name__}()")
        try:
            numbers = owner.const(tr)
            arguments = [item.realize(tr).const(tr) for item in items]
        except NotConstant:
            return tr.constant(getattr(polyfills, fn.__name__)).call(tr, [owner, *items], {})
        try:
            result = fn(numbers, *arguments)
        except Exception as error:  # a comparison's: the program gets it
            fail(error, is_exact=True)
        owner.elements[:] = [tr.constant(number) for number in numbers]
        tr.mutated(owner, "{0}[:] = {1}", SequenceValue(tuple, list(owner.elements)))
        return tr.constant(result)


for _fn in (heapq.heapify, heapq.heappush, heapq.heappop, heapq.heappushpop, heapq.heapreplace):
    _heap_rule(_fn)


@rule(bisect.bisect_left)
def _bisect_left(tr: Tracer, items: Value, item: Value) -> Value:
    return tr.fold(bisect.bisect_left, items, item)


@rule(bisect.bisect_right)
def _bisect_right(tr: Tracer, items: Value, item: Value) -> Value:
    return tr.fold(bisect.bisect_right, items, item)


@rule(bisect.insort_right)
def _insort(tr: Tracer, items: Value, item: Value) -> Value:
    where = tr.fold(bisect.bisect_right, items, item)
    items.realize(tr).getattr(tr, "insert").call(tr, [where, item], {})
    return ConstantValue(None)
