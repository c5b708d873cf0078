"""What must hold for a compiled entry to be used again, and what happens when it does not.

The frontend adds guards to a `GuardSet` while it traces, `build_check` turns them into the head of the entry's
generated function, `reasons` says why a call missed, and `RecompilePolicy` decides whether to compile once more.

All are loaded when first used: a process that recalls its entries needs none but `MISS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .miss import MISS

if TYPE_CHECKING:
    from .check import Check, build_check
    from .guard_set import GuardSet
    from .miss_reasons import FrameValues, reasons
    from .policy import Decision, RecompilePolicy, RecompileRecord

_HOMES = {
    **dict.fromkeys(("Check", "build_check"), "check"),
    **dict.fromkeys(("Decision", "RecompilePolicy", "RecompileRecord"), "policy"),
    **dict.fromkeys(("FrameValues", "reasons"), "miss_reasons"),
    "GuardSet": "guard_set",
}

__all__ = [
    "MISS",
    "Check",
    "Decision",
    "FrameValues",
    "GuardSet",
    "RecompilePolicy",
    "RecompileRecord",
    "build_check",
    "reasons",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
