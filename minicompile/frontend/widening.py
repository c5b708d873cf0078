"""Which numbers to leave open after a guard miss.

In: the guards of the entry that missed, and the values of the call. Out: the sources of ints that were compiled as
constants and have another value now. The next entry treats them as symbols, so a step counter compiles twice and not
once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from ..guards import FrameValues, GuardSet
from ..guards.kinds import ConstantGuard
from .sources import FreeCellSource, InstanceDictSource, ItemSource, LocalSource, Source, StackSource
from .values.real_iterators import PeekSource

_WHERE = (LocalSource, StackSource, FreeCellSource, ItemSource, InstanceDictSource, PeekSource)


def varying_ints(guards: GuardSet, func: FunctionType, values: Mapping[str, Any]) -> frozenset[Source]:
    """Sources of ints whose guard fails for these values."""
    frame = FrameValues(func, values)
    found = set()
    for guard in guards:
        if isinstance(guard, ConstantGuard) and type(guard.constant) is int and isinstance(guard.source, _WHERE):
            try:
                now = frame.value(guard.source)
            except Exception:
                continue
            if type(now) is int and now != guard.constant:
                found.add(guard.source)
    return frozenset(found)
