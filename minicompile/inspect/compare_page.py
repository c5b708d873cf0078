"""A comparison as one HTML page.

In: a `Comparison`. Out: the page's text: tables, and both compilers' graphs and code side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .pages import render_page
from .stacks import operations
from .timing import format_bytes, format_seconds

if TYPE_CHECKING:
    from .compare import Comparison
    from .stacks import KernelRow


def page(comparison: Comparison) -> str:
    """The whole page."""
    stacks = list(comparison.stacks.values())
    spent = [seconds for stack in stacks for seconds in stack.seconds.values()]
    return render_page(
        "compare.html.j2",
        c=comparison,
        stacks=stacks,
        measured=[_measured(comparison, name) for name in comparison.times],
        longest=max(spent, default=1.0),
        least=next((stack.least_bytes for stack in stacks if stack.least_bytes is not None), None),
        operations=operations,
        lines=_lines,
    )


def _measured(comparison: Comparison, name: str) -> dict[str, Any]:
    """The cells of one row, as texts."""
    stack, cost = comparison.stacks.get(name), comparison.call_costs.get(name)
    slowest = max(timing.median for timing in comparison.times.values())
    timing = comparison.times[name]
    generated = len(stack.generated) if stack else 0
    return {
        "name": name,
        "graphs": stack.graphs if stack else "",
        "breaks": len(stack.breaks) if stack else "",
        "kernels": generated if stack else "",
        "externs": len(stack.kernels) - generated if stack else "",
        "bytes": format_bytes(stack.bytes) if stack else "",
        "first": format_seconds(comparison.first[name]) if name in comparison.first else "",
        "steady": str(timing),
        "width": 100 * timing.median / slowest,
        "ratio": f"{comparison.ratio(name):.2f}",
        "call": format_seconds(cost.median) if cost else "",
        "error": f"{comparison.errors[name]:.1e}" if name in comparison.errors else "",
        "error64": f"{comparison.errors64[name]:.1e}" if name in comparison.errors64 else "",
    }


def _lines(row: KernelRow) -> str:
    """`scorers.py:12, scorers.py:14`."""
    return ", ".join(line.rsplit("/", 1)[-1] for line in row.lines)
