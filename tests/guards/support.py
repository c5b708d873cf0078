"""Build a check from guards and call it, as the frontend would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minicompile.frontend.sources import LocalSource
from minicompile.guards import GuardSet, build_check, reasons
from minicompile.guards.kinds import Guard

X, Y = LocalSource("x"), LocalSource("y")


def anything() -> None:
    """The function object of the frames in these tests."""


class Checked:
    """The check of some guards over parameters; `hit(…)` runs the generated function, `why(…)` the slow explanation."""

    def __init__(self, *guards: Guard, parameters: tuple[str, ...] = ("x", "y"), function: Callable = anything) -> None:
        self.parameters, self.function = parameters, function
        self.check = build_check(GuardSet(guards), parameters)
        self.run = self.check.function(parameters)

    def hit(self, *values: Any) -> bool:
        return self.run(self.function, *self._padded(values))

    def why(self, *values: Any) -> list[str]:
        frame = dict(zip(self.parameters, self._padded(values), strict=True))
        return reasons(self.check.guards, self.function, frame)

    def _padded(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*values, *(None,) * (len(self.parameters) - len(values)))


def assert_miss(checked: Checked, values: tuple[Any, ...], *words: str) -> None:
    """The generated check refuses these values, and the one reason given has all the words."""
    assert checked.hit(*values) is False
    found = checked.why(*values)
    assert len(found) == 1, found
    for word in words:
        assert word in found[0], f"{word!r} not in {found[0]!r}"


def assert_hit(checked: Checked, *values: Any) -> None:
    assert checked.hit(*values) is True
    assert checked.why(*values) == []
