"""The journal: what the traced frame did to objects that existed before it, in program order.

In: every mutation of such an object, as a text with holes and the values for the holes.
Out: the same as lines of glue, which run after the graph. If the graph raises, nothing has been done yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .breaks import Location
    from .glue import Glue
    from .values.base import Value


@dataclass(frozen=True)
class Effect:
    """One mutation: `text` has `{0}` for the target and `{1}`… for the operands; `place`: where the program made it."""

    text: str
    target: Value
    operands: tuple[Value, ...]
    place: Location

    def line(self, glue: Glue) -> str:
        """The statement that repeats it on the real object."""
        return self.text.format(glue.ref(self.target), *(glue.ref(operand) for operand in self.operands))

    def statement(self) -> str:
        """The same in the user's terms."""
        return self.text.format(*(value.describe() for value in (self.target, *self.operands)))


@dataclass(frozen=True)
class EffectRecord:
    """A mutation as the user sees it: the statement, where the program made it, and the line of the entry's code that
    repeats it (0 where that is not known)."""

    statement: str
    place: Location
    replayed_at: int = 0

    def __str__(self) -> str:
        return f"{self.place}: {self.statement}"


class Journal:
    """Effects in program order."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def record(self, text: str, target: Value, operands: tuple[Value, ...], place: Location) -> None:
        self._effects.append(Effect(text, target, operands, place))

    def targets(self) -> list[Value]:
        """The objects that are changed, each once."""
        return list({id(effect.target): effect.target for effect in self._effects}.values())

    def __iter__(self) -> Iterator[Effect]:
        return iter(self._effects)

    def __len__(self) -> int:
        return len(self._effects)
