"""Functions of the standard library in Python, to be traced in the place of the originals: those of `itertools`,
`heapq` and `operator` are written in C, others keep what cannot be traced.

In and out: as documented for the function of the same name; each asks its arguments for elements exactly when the
original does. Nothing here is ever run, only traced.
"""

# ruff: noqa: ANN001, ANN002, ANN201

from __future__ import annotations

import functools
import heapq
import operator
import types
from typing import Any


def chain(*iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def from_iterable(iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def count(start: Any = 0, step: Any = 1) -> Any:
    while True:
        yield start
        start += step


def cycle(iterable: Any) -> Any:
    saved = []
    for element in iterable:
        yield element
        saved.append(element)
    while saved:
        yield from saved


def repeat(object: Any, times: Any = None) -> Any:  # noqa: A002
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def accumulate(iterable: Any, func: Any = operator.add, *, initial: Any = None) -> Any:
    iterator = iter(iterable)
    total = initial
    if initial is None:
        for total in iterator:  # noqa: B007
            break
        else:
            return
    yield total
    for element in iterator:
        total = func(total, element)
        yield total


def islice(iterable: Any, first: Any, stop: Any = ..., step: Any = None) -> Any:
    start, end = (0, first) if stop is ... else (first or 0, stop)
    step = step or 1
    iterator = iter(iterable)
    at = 0
    wanted = start
    while end is None or at < end:
        for element in iterator:  # noqa: B007
            break
        else:
            return
        at += 1
        if at > wanted:
            yield element
            wanted += step
            if end is not None and wanted >= end:
                for _ in range(end - at):
                    for _ in iterator:
                        break
                    else:
                        return
                return


def starmap(function: Any, iterable: Any) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Any, iterable: Any) -> Any:
    for element in iterable:
        if not predicate(element):
            return
        yield element


def dropwhile(predicate: Any, iterable: Any) -> Any:
    iterator = iter(iterable)
    for element in iterator:
        if not predicate(element):
            yield element
            break
    yield from iterator


def filterfalse(predicate: Any, iterable: Any) -> Any:
    for element in iterable:
        if not (element if predicate is None else predicate(element)):
            yield element


def compress(data: Any, selectors: Any) -> Any:
    for element, selected in zip(data, selectors, strict=False):
        if selected:
            yield element


def pairwise(iterable: Any) -> Any:
    iterator = iter(iterable)
    for before in iterator:  # noqa: B007
        break
    else:
        return
    for element in iterator:
        yield before, element
        before = element


def batched(iterable: Any, n: Any) -> Any:
    batch = []
    for element in iterable:
        batch.append(element)
        if len(batch) == n:
            yield tuple(batch)
            batch = []
    if batch:
        yield tuple(batch)


def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    iterators: list[Any] = [iter(iterable) for iterable in iterables]
    active = len(iterators)
    while active:
        row = []
        for index, iterator in enumerate(iterators):
            if iterator is None:
                row.append(fillvalue)
                continue
            for element in iterator:
                row.append(element)
                break
            else:
                active -= 1
                if not active:
                    return
                iterators[index] = None
                row.append(fillvalue)
        yield tuple(row)


def groupby(iterable: Any, key: Any = None) -> Any:
    iterator = iter(iterable)
    exhausted = False
    element = present = None

    def key_of(element: Any) -> Any:
        return element if key is None else key(element)

    def group(wanted: Any) -> Any:
        nonlocal element, present, exhausted
        yield element
        for element in iterator:
            present = key_of(element)
            if present != wanted:
                return
            yield element
        exhausted = True

    for element in iterator:  # noqa: B007
        break
    else:
        return
    present = key_of(element)
    while not exhausted:
        wanted = present
        members = group(wanted)
        yield present, members
        if present == wanted:
            for _ in members:
                pass


def count_elements(mapping, iterable):
    """What `collections.Counter` counts with."""
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def bound_dispatch(self, obj, cls=None):
    """`functools.singledispatchmethod.__get__` of Python 3.13, without its cache of methods by weak references."""
    dispatch = self.dispatcher.dispatch

    def method(*args: Any, **kwargs: Any) -> Any:
        return dispatch(args[0].__class__).__get__(obj, cls)(*args, **kwargs)

    return method


def bound_partial(self, obj, cls=None):
    """`functools.partialmethod.__get__`, without the attribute `__self__` that it gives what it returns."""
    func, given, named = self.func, self.args, self.keywords
    if isinstance(func, staticmethod):
        return functools.partial(func.__func__, *given, **named)
    if isinstance(func, classmethod):
        return functools.partial(types.MethodType(func.__func__, type(obj) if cls is None else cls), *given, **named)
    if obj is not None and isinstance(func, types.FunctionType):
        return functools.partial(types.MethodType(func, obj), *given, **named)

    def method(cls_or_self, /, *args: Any, **keywords: Any) -> Any:
        return func(cls_or_self, *given, *args, **{**named, **keywords})

    return method if obj is None else types.MethodType(method, obj)


def heappush(heap, item):
    heap.append(item)
    heapq._siftdown(heap, 0, len(heap) - 1)


def heappop(heap):
    last = heap.pop()
    if not heap:
        return last
    return heapreplace(heap, last)


def heapreplace(heap, item):
    result = heap[0]
    heap[0] = item
    heapq._siftup(heap, 0)
    return result


def heappushpop(heap, item):
    if heap and heap[0] < item:
        return heapreplace(heap, item)
    return item


def heapify(heap):
    for position in reversed(range(len(heap) // 2)):
        heapq._siftup(heap, position)


def contains(a, b):
    return b in a


def countOf(a, b):  # noqa: N802
    return sum(1 for element in a if element is b or element == b)


def indexOf(a, b):  # noqa: N802
    for index, element in enumerate(a):
        if element is b or element == b:
            return index
    raise ValueError("sequence.index(x): x not in sequence")


def delitem(a, b):
    del a[b]


def concat(a, b):
    return a + b


def iconcat(a, b):
    a += b
    return a


def call(obj, /, *args, **kwargs):
    return obj(*args, **kwargs)


def leave_nothing(*error):
    return None


def itself(value):
    return value
