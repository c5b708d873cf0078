"""Why a check missed, in the user's terms.

In: an entry's guards in the order of its check, and the values of the call that missed. Out: a `Reason` for each guard
that does not hold, which the logs, `compiled.recompiles` and the policy of recompiling read. Nothing here runs as long
as calls hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..frontend.helpers import HELPERS
from ..frontend.sources import LocalSource, Source
from .guard_set import GuardSet
from .kinds import Guard
from .tensors import TensorGuard


class FrameValues:
    """The values of one call, read by source; a guard's `Frame`.

    Args:
        function: the function object of the frame.
        values: slot name → value, as the generated function got them.
    """

    def __init__(self, function: Any, values: Mapping[str, Any]) -> None:
        self._scope = {
            **HELPERS,
            **values,
            "__func__": function,
            "__globals__": getattr(function, "__globals__", {}),
            "__builtins_dict__": getattr(function, "__builtins__", {}),
        }
        self._seen: dict[Source, Any] = {}

    def value(self, source: Source) -> Any:
        if isinstance(source, LocalSource):
            return self._scope[source.expr()]
        if source not in self._seen:
            self._seen[source] = eval(source.expr(), {**source.bindings(), **self._scope})
        return self._seen[source]


class Reason(str):
    """Why a guard does not hold: one sentence, and the guard."""

    guard: Guard

    @staticmethod
    def of(sentence: str, guard: Guard, cause: str) -> Reason:
        """`cause` is the user's line that made it a guard."""
        result = Reason(f"{sentence}, read at {cause}" if cause and cause not in sentence else sentence)
        result.guard = guard
        return result


def reasons(guards: Iterable[Guard], function: Any, values: Mapping[str, Any]) -> list[Reason]:
    """Why a check missed, in the user's terms: one sentence for each guard that does not hold.

    A guard that only fails because one on its base does (reading `self.weight` of something else) is left out.
    Empty if all hold now (another thread, or a guard's own reading, changed something).
    """
    frame = FrameValues(function, values)
    failed: set[Source] = set()
    messages: list[Reason] = []
    tensors: dict[int, TensorGuard] = {}
    for guard in guards:
        if any(ancestor in failed for source in guard.sources() for ancestor in source.ancestors()):
            continue
        message = guard.explain(frame) or (isinstance(guard, TensorGuard) and _twin(guard, frame, tensors)) or None
        if message:
            messages.append(Reason.of(message, guard, guards.cause(guard) if isinstance(guards, GuardSet) else ""))
            failed.update(guard.sources())
    return messages


def _twin(guard: TensorGuard, frame: FrameValues, seen: dict[int, TensorGuard]) -> str | None:
    earlier = seen.setdefault(id(frame.value(guard.source)), guard)
    if earlier is guard:
        return None
    return f"{earlier.source.describe()} and {guard.source.describe()} are one tensor, compiled for two different ones"
