"""An entry's text, apart from the values of the process that traced it.

In: the lines that tracing wrote, with holes for what is read from outside, and guards. Out: the generated function's
text, its namespace, and the check at its head.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..guards import GuardSet, build_check
from ..guards.check import Check
from .helpers import GLUE_HELPERS
from .sources import Source

if TYPE_CHECKING:
    from .segments import Segment

_HOLE = re.compile("\x00(\\d+)\x00")


@dataclass
class EntryText:
    """`lines` behind the check; hole number i in them stands for `sources[i]`. `namespace`: what the lines name."""

    lines: list[str]
    sources: list[Source]
    namespace: dict[str, Any]


@dataclass
class Written:
    """An entry as it was written: the function's `text`, its `namespace`, the `check` at its head; and from which
    `parts`, so that it can be written anew over other guards."""

    parts: EntryText
    text: str
    namespace: dict[str, Any]
    check: Check


def assemble(segment: Segment, guards: GuardSet, text: EntryText) -> Written:
    """The whole function. `segment` is told when an object dies that the check depends on."""
    parameters = segment.layout.parameters()
    check = build_check(guards, parameters, text.sources, on_death=segment.release)
    lines = [*check.lines, *(_filled(line, text.sources, check.expr) for line in text.lines)]
    head = f"def entry({', '.join(('__func__', *parameters))}):"
    whole = "\n".join((head, *(f"    {line}" for line in lines))) + "\n"
    return Written(text, whole, {**check.namespace, **GLUE_HELPERS, **text.namespace}, check)


def _filled(line: str, sources: list[Source], expr: Callable[[Source], str]) -> str:
    return _HOLE.sub(lambda match: expr(sources[int(match.group(1))]), line)
