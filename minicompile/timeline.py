"""When the stages of compilation ran, and in which thread.

In: a stage's begin and end, from wherever it runs. Out: `Span`s, for traces and the explorer's timeline. A span that
lies within another one of its thread is a part of it.

The latest are kept; a compilation makes about ten.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_log: deque[Span] = deque(maxlen=50_000)


class Span(NamedTuple):
    """`start` and `end` in seconds of `time.perf_counter`; `thread`: the system's number of it."""

    name: str
    start: float
    end: float
    thread: int

    def holds(self, other: Span) -> bool:
        return self.thread == other.thread and self.start <= other.start and other.end <= self.end


def record(name: str, start: float, end: float) -> Span:
    """Note a stage that has ended, in the thread that asks."""
    span = Span(name, start, end, threading.get_native_id())
    _log.append(span)
    return span


@contextmanager
def stage(name: str, seconds: dict[str, float] | None = None) -> Iterator[None]:
    """Note the block as a stage, and add its time to `seconds[name]`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        end = time.perf_counter()
        record(name, start, end)
        if seconds is not None:
            seconds[name] = seconds.get(name, 0.0) + end - start


def within(span: Span) -> list[Span]:
    """A span and its parts: from the outside in, each before what follows it."""
    return sorted((each for each in list(_log) if span.holds(each)), key=lambda each: (each.start, -each.end))
