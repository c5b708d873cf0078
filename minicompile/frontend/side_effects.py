"""The journal: what the traced frame did to objects that existed before it, in program order.

In: every mutation of such an object, as a text with holes and the values for the holes.
Out: the same as lines of glue, which run after the graph. If the graph raises, nothing has been done yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .glue import Glue
    from .values.base import Value


@dataclass(frozen=True)
class Effect:
    """One mutation: `text` has `{0}` for the target and `{1}`… for the operands."""

    text: str
    target: Value
    operands: tuple[Value, ...]

    def line(self, glue: Glue) -> str:
        """The statement that repeats it on the real object."""
        return self.text.format(glue.ref(self.target), *(glue.ref(operand) for operand in self.operands))


class Journal:
    """Effects in program order."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def record(self, text: str, target: Value, operands: tuple[Value, ...]) -> None:
        self._effects.append(Effect(text, target, operands))

    def targets(self) -> list[Value]:
        """The objects that are changed, each once."""
        return list({id(effect.target): effect.target for effect in self._effects}.values())

    def __iter__(self) -> Iterator[Effect]:
        return iter(self._effects)

    def __len__(self) -> int:
        return len(self._effects)
