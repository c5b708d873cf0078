"""Somebody who watches the interpreter at work: the explorer.

In: `with watching(observer):` around calls of compiled functions. Out: the observer's methods are called while frames
are translated on this thread. Without one, each instruction costs one look at an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .bytecode import Instruction
    from .frame import Frame
    from .segments import Entry, Segment
    from .tracer import Tracer


class Observer(Protocol):
    """What is told. Everything that is handed over is only to be looked at."""

    def begin(self, segment: Segment) -> None:
        """Tracing starts at the segment's first instruction: for the first time, or over again."""

    def step(self, tr: Tracer, frame: Frame, instruction: Instruction) -> None:
        """The instruction is next; frames that are inlined come through here as well."""

    def end(self, entry: Entry) -> None:
        """What tracing came to."""


_observer: ContextVar[Observer | None] = ContextVar("minicompile_observer", default=None)


def current() -> Observer | None:
    """Who is told of translations in this context; None for nobody."""
    return _observer.get()


@contextmanager
def watching(observer: Observer) -> Iterator[None]:
    """Tell an observer of every translation in the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
