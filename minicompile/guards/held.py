"""Objects that guards remember: weakly where that can be, so that a guard keeps nothing of the user's alive.

In: an object. Out: a `Held`, which yields it as long as it lives.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from .words import show


class Held:
    """An object kept weakly where it can be and strongly where it must or may. Compared by identity."""

    __slots__ = ("_get", "_id", "weak")

    def __init__(self, value: Any) -> None:
        self.weak = not lives_for_ever(value)
        self._id = id(value)
        try:
            self._get: Callable[[], Any] = weakref.ref(value) if self.weak else lambda: value
        except TypeError:
            self.weak, self._get = False, lambda: value

    def __call__(self) -> Any:
        """The object, or None once it has died."""
        return self._get()

    def __str__(self) -> str:
        value = self()
        return "an object that no longer exists" if self.weak and value is None else show(value)

    def __reduce__(self) -> Any:
        value = self()
        if self.weak and value is None:
            raise TypeError("an object that died cannot be stored")
        return (Held, (value,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self._id == other._id

    def __hash__(self) -> int:
        return self._id


def lives_for_ever(value: Any) -> bool:
    """Builtins, modules and importable classes: a strong reference costs nothing and is cheaper to compare with."""
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType)) or value is None:
        return True
    if isinstance(value, type):
        return getattr(sys.modules.get(value.__module__), value.__qualname__, None) is value
    return False
