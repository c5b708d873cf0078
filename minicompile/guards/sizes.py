"""Guards on symbolic sizes: arithmetic facts over sizes, strides and ints, as plain Python.

In: a template over sources, which `guards.shapes` makes from torch's `ShapeEnv` (and the frontend from its own facts).
Out: `SizeGuard`s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from ..frontend.helpers import ARITHMETIC
from ..frontend.sources import Source, namespaced
from .kinds import Frame, Guard, Scope
from .tensors import TENSOR_RANK

_BOUND = re.compile(r"\{0\} (>=|<=) (-?\d+)")


def implied(guards: Iterable[SizeGuard]) -> set[SizeGuard]:
    """The bounds that a stricter bound of the same number implies."""
    strictest: dict[tuple[Source, str], tuple[int, SizeGuard]] = {}
    weaker: set[SizeGuard] = set()
    for guard in guards:
        found = _BOUND.fullmatch(guard.template)
        if found is None:
            continue
        key, bound = (guard.terms[0], found[1]), int(found[2])
        other = strictest.get(key)
        if other is not None and (bound <= other[0]) == (found[1] == ">="):
            weaker.add(guard)
            continue
        if other is not None:
            weaker.add(other[1])
        strictest[key] = bound, guard
    return weaker


_NAMES = {**ARITHMETIC, "inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class SizeGuard(Guard):
    """A relation between numbers: `template` has `{0}`, `{1}`, … where the values of `terms` go, as in `"{0} >= 2"`.

    `cause` is the user's line that made tracing rely on it, `""` if it was the rule that sizes 0 and 1 are compiled
    for on their own.
    """

    template: str
    terms: tuple[Source, ...]
    cause: str = field(default="", compare=False)
    rank: ClassVar[int] = TENSOR_RANK + 10

    def sources(self) -> tuple[Source, ...]:
        return self.terms

    def condition(self, scope: Scope) -> str:
        return namespaced(self.template).format(*map(scope.read, self.terms))

    def miss(self, frame: Frame) -> str | None:
        values = [frame.value(term) for term in self.terms]
        if eval(namespaced(self.template).format(*(f"({value!r})" for value in values)), dict(_NAMES)):
            return None
        wanted = f"compiled for {self.text()}{f', because of {self.cause}' if self.cause else ''}"
        if len(self.terms) == 1:
            return f"{self.terms[0].describe()} is {values[0]}, {wanted}"
        facts = (f"{term.describe()} is {value}" for term, value in zip(self.terms, values, strict=True))
        return f"{', '.join(facts)}; {wanted}"

    def text(self) -> str:
        """The relation as the user would write it: `x.shape[0] >= 2`."""
        return self.template.format(*(term.path() for term in self.terms))

    def __str__(self) -> str:
        return f"{self.text()}{f'  ({self.cause})' if self.cause else ''}"
