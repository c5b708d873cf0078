"""Guards on whether there is anything in a place, whatever it is.

In: the source of a value of which only the presence was asked, or of a cell that was empty.
Out: guards like those of kinds.py.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import ClassVar

from ..frontend.sources import Source
from .kinds import Frame, Guard, Scope, Stay


@dataclass(frozen=True)
class PresenceGuard(Guard):
    """There is something in this place, whatever it is: all that was asked is whether it is there."""

    source: Source
    rank: ClassVar[int] = 10

    def condition(self, scope: Scope) -> str:
        return f"({scope.read(self.source)}, True)[1]"

    def rests_on(self) -> tuple[Stay, ...]:
        return (("place", self.source),)

    def miss(self, frame: Frame) -> None:
        frame.value(self.source)

    def __str__(self) -> str:
        return f"there is {self.source}"


@dataclass(frozen=True)
class EmptyCellGuard(Guard):
    """A closure's cell is empty. Cells compare as their contents do, and an empty one is equal to no other."""

    source: Source
    rank: ClassVar[int] = 10

    def condition(self, scope: Scope) -> str:
        return f"{scope.make(types.CellType)} == {scope.read(self.source)}"

    def miss(self, frame: Frame) -> str | None:
        is_empty = types.CellType() == frame.value(self.source)
        return None if is_empty else f"{self.source.describe()} has contents now, compiled for none"

    def __str__(self) -> str:
        return f"{self.source} is empty"
