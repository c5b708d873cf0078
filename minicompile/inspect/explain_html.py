"""An explanation in a notebook: the tables, and the graphs as pictures.

In: an `Explanation`. Out: HTML with SVG inside, or without pictures where no layout engine is found.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..errors import DrawingUnavailable
from ..ir.dot import to_dot, to_svg
from .explain_text import summary, tables
from .stacks import compiled_halves

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph
    from ..ir.graph import Node
    from .explain import Explanation

MAX_DRAWN = 200
"""Nodes of a graph that is still worth looking at as a picture."""


def as_html(explanation: Explanation) -> str:
    """The same for notebooks: a summary, and a table that folds for each kind of row."""
    parts = [f"<p>{escape(line)}</p>" for line in summary(explanation).splitlines()]
    for title, columns, rows in tables(explanation):
        if rows:
            head = "".join(f"<th>{escape(column)}</th>" for column in columns)
            body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
            parts.append(f"<details open><summary><b>{escape(title)}</b></summary>"
                         f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>")  # fmt: skip
    parts += [f"<details><summary>{title}</summary>{svg}</details>" for title, svg in _drawings(explanation)]
    return "\n".join(parts)


def _drawings(explanation: Explanation) -> list[tuple[str, str]]:
    found = []
    for number, graph in enumerate(explanation.graphs):
        for half in compiled_halves(graph.compiled):
            svg = kernel_drawing(half)
            if svg:
                found.append((f"Graph {number}, by kernel", svg))
    return found


def kernel_drawing(compiled: CompiledGraph) -> str:
    """The graph that fusion saw as SVG, a box and a colour for each kernel; "" for one too large, or where nothing can
    draw."""
    graph = compiled.prepared or compiled.ir
    if len(graph.nodes) > MAX_DRAWN:
        return ""
    try:
        return to_svg(to_dot(graph, kernel_groups(compiled)))
    except DrawingUnavailable:
        return ""


def kernel_groups(compiled: CompiledGraph) -> dict[Node, str]:
    """Node → kernel; a node that several kernels compute belongs to the first."""
    groups: dict[Node, str] = {}
    if compiled.prepared is not None:
        for kernel in compiled.kernels:
            for number in kernel.nodes:
                groups.setdefault(compiled.prepared.nodes[number], kernel.name)
    return groups
