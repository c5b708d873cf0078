"""What a class holds under a name.

In: a class and a name. Out: the raw attribute, without any descriptor having run.
"""

from __future__ import annotations

from typing import Any

MISSING = object()


def static_lookup(cls: type, name: str) -> Any:
    """The raw attribute that the class and its bases hold under a name, `MISSING` if none: no descriptor runs."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING
