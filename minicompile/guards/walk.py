"""Runs of plain reads and comparisons in a check, as one native call each.

In: a check's lines, and what some of them mean as a `Step`. Out: the lines, with long runs of such lines in a row
replaced by a call of a `Walk` (walk.c) that does the same in the same order. The lines stay as comments: what a check
says can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..frontend.sources import (
    AttributesSource,
    InstanceDictSource,
    ItemSource,
    ModuleMemberSource,
    RegistrySource,
    Source,
)
from .made import Made

try:
    from minicompile.guards import _walk as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]

WORTHWHILE = 16
"""Lines in a row from which one call costs less, with the tuple that it returns."""

SKIPPED = "__skipped"
"""The variable for what nobody reads. (`_` may be an argument.)"""

Hop = tuple[Any, ...]
"""("item", key), or ("attributes",): a read from what was read before."""

Comparison = tuple[str, Any]
"""What holds for a value: ("type", class), ("absent", key) and so on; see walk.c."""


@dataclass(frozen=True)
class Step:
    """What a line means: from the variable `start` by `hops` to a value, which is called `target` or is compared."""

    start: str
    hops: tuple[Hop, ...]
    target: str = ""
    comparison: Comparison | None = None


def path_to(source: Source, available: Mapping[Source, str]) -> tuple[str, tuple[Hop, ...]] | None:
    """How a source is read from the nearest variable; None if by more than items of containers and `__dict__`s."""
    hops: list[Hop] = []
    while source not in available:
        hop, parent = _hop(source), source.parent()
        if hop is None or parent is None:
            text = source.expr()
            return (text, tuple(reversed(hops))) if parent is None and text.isidentifier() else None
        hops.append(hop)
        source = parent
    return available[source], tuple(reversed(hops))


def _hop(source: Source) -> Hop | None:
    if isinstance(source, AttributesSource):
        return ("attributes",)
    if isinstance(source, InstanceDictSource):
        return ("item", source.attr)
    if isinstance(source, RegistrySource):
        return ("item", source.registry)
    if isinstance(source, ModuleMemberSource):
        return ("item", source.key)
    if isinstance(source, ItemSource) and not isinstance(source.key, Source):
        return ("item", source.key)
    return None


def walked(lines: Sequence[str], steps: Mapping[int, Step], made: dict[str, Made]) -> list[str]:
    """The lines with their runs replaced; `made` gets the walks. `steps`: number of a line → its meaning."""
    if _native is None:
        return list(lines)
    result: list[str] = []
    at = 0
    while at < len(lines):
        end = at
        while end in steps:
            end += 1
        if end - at >= WORTHWHILE:
            result += [f"# {line}" for line in lines[at:end]]
            result += _call([steps[number] for number in range(at, end)], made)
        else:
            end = max(end, at + 1)
            result += lines[at:end]
        at = end
    return result


def _call(steps: Sequence[Step], made: dict[str, Made]) -> list[str]:
    inside = {step.target for step in steps}
    inputs = list(dict.fromkeys(step.start for step in steps if step.start not in inside))
    registers = {name: number for number, name in enumerate(inputs)}
    found: list[str] = []  # for each new register the variable that gets its value
    program: list[tuple[Any, ...]] = []
    for step in steps:
        register = registers[step.start]
        for hop in step.hops:
            program.append((hop[0], register, *hop[1:]))
            register = len(inputs) + len(found)
            found.append(SKIPPED)
        if step.comparison is not None:
            program.append((step.comparison[0], register, step.comparison[1]))
        else:
            registers[step.target] = register
            found[register - len(inputs)] = step.target
    name = f"__walk{sum(key.startswith('__walk') for key in made)}"
    made[name] = Made(_native.Walk, (tuple(program), len(inputs)))
    call = f"{name}({', '.join(inputs)})"
    if all(variable == SKIPPED for variable in found):
        return [f"if {call} is None: return __MISS__"]
    return [f"__walked = {call}", "if __walked is None: return __MISS__", f"{', '.join(found)}, = __walked"]
