"""The guards of one entry while they are being collected.

In: guards, added by the interpreter the moment something depends on a value, and the user's line that it was tracing.
Out: the same, each once, in the order in which they were first needed; printed, each with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..frontend.sources import Source
from .kinds import ConstantGuard, Guard, TypeGuard
from .sizes import SizeGuard, implied
from .tensors import TensorGuard


class GuardSet:
    """An ordered set of guards. `needed()` leaves out what another guard of the set implies."""

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self._guards: dict[Guard, str] = dict.fromkeys(guards, "")
        self._read: dict[Source, str] = {}

    def add(self, guard: Guard, cause: str = "") -> None:
        """`cause`: the user's `file:line`; that which read the guard's first source, if it is not given."""
        known = (self._read[source] for source in guard.sources() if source in self._read)
        self._guards.setdefault(guard, cause or next(known, ""))

    def read(self, source: Source, cause: str) -> None:
        """A source has been read at the user's `file:line`; what is guarded about it may only turn out later."""
        self._read.setdefault(source, cause)

    def cause(self, guard: Guard) -> str:
        """The user's `file:line` that made this a guard, `""` where there is none."""
        return (guard.cause if isinstance(guard, SizeGuard) else "") or self._guards.get(guard, "")

    def update(self, guards: Iterable[Guard]) -> None:
        for guard in guards:
            self.add(guard)

    def copy(self) -> GuardSet:
        result = GuardSet()
        result._guards, result._read = dict(self._guards), dict(self._read)
        return result

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __len__(self) -> int:
        return len(self._guards)

    def __contains__(self, guard: object) -> bool:
        return guard in self._guards

    def tensors(self) -> list[TensorGuard]:
        return [guard for guard in self._guards if isinstance(guard, TensorGuard)]

    def needed(self) -> list[Guard]:
        """The guards without those that others say as well: the type of what a constant or tensor guard checks the type
        of anyway, and `x >= 2` beside `x >= 4`."""
        typed = {guard.source for guard in self._guards if isinstance(guard, (ConstantGuard, TensorGuard))}
        weaker = implied([guard for guard in self._guards if isinstance(guard, SizeGuard)])
        return [
            guard
            for guard in self._guards
            if not (isinstance(guard, TypeGuard) and guard.source in typed) and guard not in weaker
        ]

    def __str__(self) -> str:
        """One guard a line, and behind it where it comes from."""
        rows = [(self._fact(guard), self.cause(guard)) for guard in self._guards]
        width = min(max((len(fact) for fact, _ in rows), default=0), 60)
        return "\n".join(f"{fact:{width}}  # {cause}" if cause else fact for fact, cause in rows)

    @staticmethod
    def _fact(guard: Guard) -> str:
        return guard.text() if isinstance(guard, SizeGuard) else str(guard)
