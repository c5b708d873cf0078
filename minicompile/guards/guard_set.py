"""The guards of one entry while they are being collected.

In: guards, added by the interpreter the moment something depends on a value.
Out: the same, each once, in the order in which they were first needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .kinds import ConstantGuard, Guard, TypeGuard
from .tensors import TensorGuard


class GuardSet:
    """An ordered set of guards. `needed()` leaves out what another guard of the set implies."""

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self._guards: dict[Guard, None] = dict.fromkeys(guards)

    def add(self, guard: Guard) -> None:
        self._guards.setdefault(guard)

    def update(self, guards: Iterable[Guard]) -> None:
        for guard in guards:
            self.add(guard)

    def copy(self) -> GuardSet:
        return GuardSet(self)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __len__(self) -> int:
        return len(self._guards)

    def __contains__(self, guard: object) -> bool:
        return guard in self._guards

    def tensors(self) -> list[TensorGuard]:
        return [guard for guard in self._guards if isinstance(guard, TensorGuard)]

    def needed(self) -> list[Guard]:
        """The guards without type guards on what a constant or tensor guard checks the type of anyway."""
        typed = {guard.source for guard in self._guards if isinstance(guard, (ConstantGuard, TensorGuard))}
        return [guard for guard in self._guards if not (isinstance(guard, TypeGuard) and guard.source in typed)]

    def __str__(self) -> str:
        return "\n".join(map(str, self._guards))
