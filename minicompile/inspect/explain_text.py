"""An explanation as text for a terminal.

In: an `Explanation`. Out: tables, those that have something to say.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .stacks import operations
from .timing import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from .explain import Explanation

WIDTH = 120
BREAKS = "Graph breaks"


def as_text(explanation: Explanation) -> str:
    """The summary, its tables and the advice, as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDTH, record=False)
    console.print(summary(explanation), highlight=False)
    for row in explanation.advice:
        console.print(f"{row}\n", highlight=False, markup=False, soft_wrap=True)
    for title, columns, rows in tables(explanation):
        if rows and title != BREAKS:
            console.print(_table(title, columns, rows))
    if explanation.seconds:
        spent = ", ".join(f"{name} {format_seconds(time)}" for name, time in explanation.seconds.items())
        console.print(f"Compiled in: {spent}.", highlight=False)
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined]


def summary(explanation: Explanation) -> str:
    """How many of what; and in plain words what runs in eager mode, and why."""
    e = explanation
    lines = [f"{e.graph_count} graph(s), {e.graph_break_count} graph break(s), {e.kernel_count} kernel(s)"]
    if e.ran_wholly_in_eager:
        why = "; ".join(e.eager) or "it computes nothing with tensors"
        lines.append(f"Nothing was compiled: the function runs as if minicompile were not there, because {why}.")
    else:
        lines += [f"A part runs in eager mode: {entry.name}: {entry.eager}." for entry in e.entries if entry.eager]
    return "\n".join(lines)


Table = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]


def tables(explanation: Explanation) -> Iterator[Table]:
    """(title, columns, rows) of everything there is to say."""
    e = explanation
    yield "Graphs", ("graph", "operations", "runs as", "extern calls"), _graphs(e)
    breaks = [(f"{row.file}:{row.line}", row.source, f"{row.kind}: {row.why}", row.rewrite) for row in e.advice]
    yield BREAKS, ("where", "line", "why", "what to do"), breaks
    moved = sum(row.bytes or 0 for row in e.costs)
    title = f"Kernels: {format_bytes(moved)} moved; inputs and results alone are {format_bytes(e.least_bytes)}"
    yield title, ("kernel", "language", "bytes", "flops", "operations", "user lines"), _kernels(e)
    yield "Fusion", ("kernels", "", "why"), _fusions(e)
    yield "Side effects", ("made at", "what", "repeated at"), _effects(e)
    recompiles = [(r.call, "compiled" if r.compiled else "eager", _list(r.reasons)) for r in e.recompiles]
    yield "Recompiles", ("call", "then", "because"), recompiles
    guards = [(str(number), line) for number, lines in enumerate(e.guards) for line in lines]
    yield "Guards", ("entry", "must hold"), guards


def _graphs(explanation: Explanation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, graph in enumerate(explanation.graphs):
        calls = sum(node.op.startswith("call") for node in graph.gm.graph.nodes)
        externs = getattr(graph.compiled, "externs", None)
        how = getattr(graph.compiled, "reason", None) or f"{len(getattr(graph.compiled, 'kernels', ()))} kernel(s)"
        rows.append((str(number), str(calls), how, ", ".join(externs or ())))
    return rows


def _kernels(explanation: Explanation) -> list[tuple[str, ...]]:
    return [
        (r.name, r.language, format_bytes(r.bytes), format_count(r.flops or 0), operations(r), _lines(r.lines))
        for r in explanation.costs
    ]


def _fusions(explanation: Explanation) -> list[tuple[str, ...]]:
    """Refusals, each with its reason; what was fused is told by the kernels."""
    return [(f"{d.first} + {d.second}", "kept apart", d.reason) for d in explanation.fusions if not d.fused]


def _effects(explanation: Explanation) -> list[tuple[str, ...]]:
    return [
        (f"{effect.place.file}:{effect.place.line}", effect.statement, f"entry {number}, line {effect.replayed_at}")
        for number, entry in enumerate(explanation.entries)
        for effect in entry.effects
    ]


def _list(reasons: Sequence[str]) -> str:
    return "; ".join(reasons) or "no entry fitted"


def _lines(places: Sequence[str]) -> str:
    """`scorers.py:12, 14` for the lines of one file."""
    by_file: dict[str, list[int]] = {}
    for place in places:
        file, _, line = place.rpartition(":")
        by_file.setdefault(file.rsplit("/", 1)[-1], []).append(int(line))
    return "; ".join(f"{file}:{', '.join(map(str, sorted(set(lines))))}" for file, lines in by_file.items())


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
