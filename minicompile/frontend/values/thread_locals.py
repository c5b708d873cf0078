"""threading.local: an object whose attributes are another's in every thread.

In: such objects from outside. Out: attributes read by their names, which find those of the thread that runs; what the
frame sets and deletes, in the journal.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ...guards.kinds import AttrPresenceGuard
from ..sources import AttrSource
from .base import Lazy, Value, fail, is_found_by_reading

if TYPE_CHECKING:
    from ..sources import Source
    from ..tracer import Tracer


class ThreadLocalValue(Value):
    """A `threading.local`, and of no class that derives from it."""

    def __init__(self, obj: Any, source: Source) -> None:
        self.obj = obj
        self.source = source
        self.attributes: dict[str, Value | None] = {}
        """What the frame has set, and None for what it has deleted."""

    def python_type(self) -> type:
        return threading.local

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name.startswith("__"):
            raise self.cannot(f"reading attribute {name!r}")
        if name in self.attributes:
            found = self.attributes[name]
        else:
            found = self._from_outside(tr, name)
        if found is None:
            fail(AttributeError(f"'_thread._local' object has no attribute '{name}'"), is_exact=True)
        return found

    def _from_outside(self, tr: Tracer, name: str) -> Value | None:
        assert self.source is not None
        if hasattr(self.obj, name):
            return Lazy(getattr(self.obj, name), AttrSource(self.source, name))
        tr.guard(AttrPresenceGuard(self.source, name, False))
        return None

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return is_found_by_reading(tr, self, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        if name.startswith("__") or not name.isidentifier():
            raise self.cannot(f"setting attribute {name!r}")
        self.attributes[name] = value
        tr.mutated(self, f"{{0}}.{name} = {{1}}", value)

    def delattr(self, tr: Tracer, name: str) -> None:
        self.getattr(tr, name)
        self.attributes[name] = None
        tr.mutated(self, f"del {{0}}.{name}")


def outside_thread_local(tr: Tracer, obj: Any, source: Source) -> Value:
    """One from outside. Its class has no say in anything."""
    tr.guard_type(source, obj)
    return ThreadLocalValue(obj, source)


__all__ = ["outside_thread_local"]
