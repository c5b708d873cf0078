"""What a check calls and another process has to make anew: programs of C extensions, keys with ids in them.

In: a factory and its arguments, which can be stored. Out: the object, here by a call and there by unpickling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Made(NamedTuple):
    """How an object is made."""

    factory: Callable[..., Any]
    args: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.factory(*self.args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.factory, self.args
