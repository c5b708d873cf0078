"""`minicompile.explain(fn)(*args)`: what became of a function, as values and as readable text.

In: a function (compiled afresh) or an already compiled one, and a call's arguments. Out: an `Explanation`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..frontend.breaks import BreakRecord
    from ..frontend.segments import Entry, GraphRecord


@dataclass(frozen=True)
class Explanation:
    """Everything that compiling a function made, over all its entries.

    Attributes:
        entries: the compiled entries themselves.
        graphs: captured graphs: `.gm` is the FX graph, `.compiled` what the backend made of it.
        graph_breaks: each break once: kind, reason, hint, file and line.
        kernels: generated kernels, in order.
        guards: one list of readable lines per entry.
        glue: the generated Python of each entry.
        eager: why pieces of code run in eager mode, if any do.
    """

    entries: list[Entry]
    graphs: list[GraphRecord]
    graph_breaks: list[BreakRecord]
    kernels: list[Any]
    guards: list[list[str]]
    glue: list[str]
    eager: list[str]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.graph_breaks)

    @property
    def kernel_count(self) -> int:
        return len(self.kernels)

    @staticmethod
    def of(entries: list[Entry]) -> Explanation:
        """Collect over entries; a break that several entries met counts once."""
        graphs = [graph for entry in entries for graph in entry.graphs]
        return Explanation(
            entries=entries,
            graphs=graphs,
            graph_breaks=list(dict.fromkeys(broken for entry in entries for broken in entry.breaks)),
            kernels=[kernel for graph in graphs for kernel in getattr(graph.compiled, "kernels", ())],
            guards=[[str(guard) for guard in entry.guards] for entry in entries],
            glue=[entry.code for entry in entries],
            eager=list(dict.fromkeys(entry.eager for entry in entries if entry.eager)),
        )

    def __str__(self) -> str:
        return _rendered(self)

    __repr__ = __str__


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """A function that takes `fn`'s arguments, runs it compiled, and returns the `Explanation`.

    A function that `minicompile.compile` returned is explained as it stands, with all its entries so far; anything
    else is compiled afresh with `options`.
    """
    from ..api import CompiledFunction, CompiledModule, compile

    compiled: Any = fn if isinstance(fn, (CompiledFunction, CompiledModule)) else compile(fn, **options)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled(*args, **kwargs)
        return Explanation.of(compiled.entries)

    return explained


def _rendered(explanation: Explanation) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=120, record=False)
    counts = (explanation.graph_count, explanation.graph_break_count, explanation.kernel_count)
    console.print("{} graph(s), {} graph break(s), {} kernel(s)".format(*counts), highlight=False)
    for table in _tables(explanation):
        console.print(table)
    for reason in explanation.eager:
        console.print(f"Runs in eager mode: {reason}.", highlight=False)
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined]


def _tables(explanation: Explanation) -> list[Any]:
    tables = [_graph_table(explanation)]
    if explanation.graph_breaks:
        breaks = [(f"{b.file}:{b.line}", b.kind.value, b.reason, b.hint) for b in explanation.graph_breaks]
        tables.append(_table("Graph breaks", ("where", "kind", "why", "what to do"), breaks))
    if explanation.kernels:
        kernels = [(k.name, k.language, " ".join(k.ops), _lines(k.origins)) for k in explanation.kernels]
        tables.append(_table("Kernels", ("kernel", "language", "operations", "user lines"), kernels))
    guards = [(str(number), line) for number, lines in enumerate(explanation.guards) for line in lines]
    tables.append(_table("Guards", ("entry", "must hold"), guards))
    return tables


def _graph_table(explanation: Explanation) -> Any:
    rows = []
    for number, graph in enumerate(explanation.graphs):
        calls = sum(node.op.startswith("call") for node in graph.gm.graph.nodes)
        externs = getattr(graph.compiled, "externs", None)
        how = getattr(graph.compiled, "reason", None) or f"{len(getattr(graph.compiled, 'kernels', ()))} kernel(s)"
        rows.append((str(number), str(calls), how, ", ".join(externs or ())))
    return _table("Graphs", ("graph", "operations", "runs as", "extern calls"), rows)


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _lines(origins: list[Any]) -> str:
    """`scorers.py:12, 14` for the lines of one file."""
    by_file: dict[str, list[int]] = {}
    for origin in origins:
        lines = by_file.setdefault(origin.file.rsplit("/", 1)[-1], [])
        if origin.line not in lines:
            lines.append(origin.line)
    return "; ".join(f"{file}:{', '.join(map(str, sorted(lines)))}" for file, lines in by_file.items())
