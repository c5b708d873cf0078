"""Words for messages about objects of the user, of which no code runs.

In: any object or class. Out: a short text.
"""

from __future__ import annotations

import types
from typing import Any

from .constants import is_constant


def show(value: Any) -> str:
    """A short text for any object that runs no user code: constants by repr, the rest by name or class."""
    if is_constant(value):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return value.__name__
    return a(type(value))


def with_type(value: Any) -> str:
    """Like `show`, with the type in front where the text alone may not tell: `the float 1.0`, `the bool True`."""
    return f"the {type(value).__name__} {show(value)}" if type(value) in (int, float, bool, str, bytes) else show(value)


def a(cls: type | None) -> str:
    """A class with its article; None stands for a class that died."""
    if cls is None:
        return "a class that no longer exists"
    if cls is type(None):
        return "None"
    return f"{'an' if cls.__name__[0].lower() in 'aeiou' else 'a'} {cls.__name__}"
