"""A comparison on the terminal: one screen.

In: a `Comparison`. Out: text, or HTML for notebooks: what was measured, where compile time went, and every kernel.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .stacks import operations
from .timing import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from .compare import Comparison
    from .stacks import Stack

WIDTH = 120


def as_text(comparison: Comparison) -> str:
    """For the terminal and for `print`, without colours."""
    return _console(comparison, None).file.getvalue().rstrip()  # type: ignore[attr-defined]


def as_html(comparison: Comparison) -> str:
    """For notebooks."""
    console = _console(comparison, True)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.2">{code}</pre>')


def _console(comparison: Comparison, record: bool | None) -> Console:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDTH, record=bool(record))
    for part in renderables(comparison):
        console.print(part, highlight=False)
    return console


def renderables(comparison: Comparison) -> Iterator[Any]:
    """What `minicompile compare` prints, for a console of the caller's."""
    yield _measured(comparison)
    if comparison.once:
        once = ", ".join(f"{name} {format_seconds(spent)}" for name, spent in comparison.once.items())
        yield f"Once a process, before that (imports, looking at the machine): {once}.\n"
    for stack in comparison.stacks.values():
        yield kernel_table(stack)
        for row in stack.breaks:
            yield f"{stack.name}: graph break at {row.file}:{row.line} in {row.function}: {row.reason}"
        for note in stack.notes:
            yield f"{stack.name}: runs in eager mode: {note}"
        yield f"{stack.name} compiled: {stage_text(stack)}"


def _measured(comparison: Comparison) -> Any:
    columns = ["", "graphs", "breaks", "kernels", "moves", "first call", "steady", "× eager", "dispatch", "error",
               "to float64"]  # fmt: skip
    title = f"{comparison.title} on {comparison.machine}"
    table = _table(title, columns)
    for name, timing in comparison.times.items():
        stack = comparison.stacks.get(name)
        cost = comparison.call_costs.get(name)
        table.add_row(
            name,
            *(_counts(stack) if stack else ("", "", "", "")),
            format_seconds(comparison.first[name]) if name in comparison.first else "",
            str(timing),
            f"{comparison.ratio(name):.2f}",
            format_seconds(cost.median) if cost else "",
            f"{comparison.errors[name]:.1e}" if name in comparison.errors else "",
            f"{comparison.errors64[name]:.1e}" if name in comparison.errors64 else "",
        )
    return table


def _counts(stack: Stack) -> tuple[str, str, str, str]:
    calls = len(stack.kernels) - len(stack.generated)
    kernels = f"{len(stack.generated)}" + (f" + {calls} ATen" if calls else "")
    return str(stack.graphs), str(len(stack.breaks)), kernels, format_bytes(stack.bytes)


def kernel_table(stack: Stack) -> Any:
    """Kernels and extern calls, each with its bytes; in the title the least that the graphs must move."""
    least = f", at least {format_bytes(stack.least_bytes)} in all" if stack.least_bytes is not None else ""
    table = _table(f"{stack.name}: kernels{least}", ["kernel", "language", "bytes", "flops", "operations"])
    for row in stack.kernels:
        flops = format_count(row.flops) if row.flops else ""
        table.add_row(row.name, row.language, format_bytes(row.bytes), flops, operations(row))
    return table


def stage_text(stack: Stack) -> str:
    """`trace 3 ms, lowering 20 ms, …`."""
    return ", ".join(f"{name} {format_seconds(spent)}" for name, spent in stack.seconds.items())


def _table(title: str, columns: list[str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        is_text = number == 0 or column in ("language", "operations")
        justify: Any = "left" if is_text else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column != "operations")
    return table
