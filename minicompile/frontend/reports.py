"""What the logs say of a new entry.

In: an entry. Out: files in the debug folder; log records on `minicompile.graph`, `fx`, `breaks`, `guards`,
`output_code` and `perf`, built only for subjects that are on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import logs
from ..config import config

if TYPE_CHECKING:
    from .segments import Entry

_GRAPH, _FX, _BREAKS, _GUARDS, _CODE, _PERF = map(logs.get, ("graph", "fx", "breaks", "guards", "output_code", "perf"))


def log_entry(entry: Entry) -> None:
    """Say what was compiled, under the subjects that are on; write it into the debug folder, if there is one."""
    if config.debug_dir is not None:
        from ..inspect.debug import write_entry

        write_entry(config.debug_dir, entry)
    for graph in entry.graphs:
        if _GRAPH.on:
            _GRAPH("captured from %s:\n%s", entry.name, graph_text(graph.gm))
        if _FX.on:
            _FX("captured from %s:\n%s", entry.name, graph.gm.print_readable(print_output=False))
    for record in entry.breaks:
        _BREAKS("graph break: %s", record)
    if entry.eager:
        _BREAKS("%s runs in eager mode: %s", entry.name, entry.eager)
    if _GUARDS.on:
        _GUARDS("%s is used again while\n%s", entry.name, entry.guards)
    if _CODE.on:
        _CODE("glue of %s:\n%s", entry.name, entry.code)
    if _PERF.on:
        _PERF("%s: %s", entry.name, times_text(entry.seconds))


def times_text(seconds: dict[str, float]) -> str:
    """The stages, and what of them is the frontend: all but the backend, which compiles the graph."""
    stages = ", ".join(f"{stage} {taken * 1e3:.1f} ms" for stage, taken in seconds.items())
    whole = sum(seconds.values())
    share = (whole - seconds.get("backend", 0.0)) / whole if whole else 0.0
    return f"{stages}; the frontend's share is {share:.0%} of {whole * 1e3:.1f} ms"


def graph_text(gm: Any) -> str:
    """The graph's operations, each under the user's line that it comes from."""
    lines: list[str] = []
    last = None
    for node in gm.graph.nodes:
        origin = node.meta.get("origin")
        if origin is not None and (origin.file, origin.line) != last:
            last = (origin.file, origin.line)
            lines.append(f"  # {origin.file}:{origin.line} in {origin.function}")
        lines.append(f"  {node.format_node() or node}")
    return "\n".join(lines)
