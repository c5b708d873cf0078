"""What the files of programs share: a table that a decorator fills, and a plain object to hand to programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Programs(dict[str, tuple[Any, tuple[Any, ...]]]):
    """Name → a program and its arguments."""

    def program(self, *args: Any) -> Callable[[Any], Any]:
        """A decorator that enters a function under its own name, with the arguments that it is called with."""

        def register(fn: Any) -> Any:
            self[fn.__name__] = (fn, args)
            return fn

        return register


class Obj:
    """An object of the program, equal to one with the same attributes."""

    k = 1

    def __init__(self, v: Any) -> None:
        self.v = v

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Obj) and vars(self) == vars(other)
