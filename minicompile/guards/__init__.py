"""What must hold for a compiled entry to be used again, and what happens when it does not.

The frontend adds guards to a `GuardSet` while it traces, `build_check` turns them into the head of the entry's
generated function, `reasons` says why a call missed, and `RecompilePolicy` decides whether to compile once more.
"""

from .check import Check, FrameValues, build_check, reasons
from .guard_set import GuardSet
from .miss import MISS
from .policy import Decision, RecompilePolicy, RecompileRecord

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
