"""A segment's dispatcher: the callable that finds the entry which fits a call.

In: the segment's entries, the latest first, and what to do when none fits. Out: a callable of a function and its
argument slots. Two doors: the C type of dispatch.c, and a closure where that extension was not built.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..guards import MISS
from ..guards.recent import RecentFirst

try:
    from minicompile.frontend import _dispatch as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]


def dispatcher(entries: RecentFirst[Any], miss: Callable[..., Any]) -> Callable[..., Any]:
    """See the module's docstring; `miss(func, slots, tried)` is given the entries that did not fit."""
    if _native is not None:
        return _native.Dispatch(entries, miss, MISS)

    def dispatch(func: FunctionType, *slots: Any) -> Any:
        tried = entries.entries
        for entry in tried:
            result = entry.run(func, *slots)
            if result is not MISS:
                if entry is not tried[0]:
                    entries.use(entry)
                return result
        return miss(func, slots, tried)

    return dispatch
