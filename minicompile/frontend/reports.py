"""What the logs say of a new entry.

In: an entry. Out: files in the debug folder; log records on all subjects but `recompiles` (that is guards/policy.py's),
built only for those that are on.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from .. import logs
from ..codegen.compiled import CompiledGraph
from ..config import config

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from .segments import Entry

_GRAPH, _FX, _IR, _BREAKS, _GUARDS, _DYNAMIC, _FUSION, _KERNELS, _CODE, _PERF, _CACHE = map(
    logs.get,
    ("graph", "fx", "ir", "breaks", "guards", "dynamic", "fusion", "kernels", "output_code", "perf", "cache"),
)


def log_entry(entry: Entry) -> None:
    """Say what was compiled, under the subjects that are on; write it into the debug folder, if there is one."""
    if config.debug_dir is not None:
        _write_stages(config.debug_dir, entry)
    for graph in entry.graphs:
        if _GRAPH.on:
            _GRAPH("captured from %s:\n%s", entry.name, graph_text(graph.gm))
        if _FX.on:
            _FX("captured from %s:\n%s", entry.name, graph.gm.print_readable(print_output=False))
        for part in _compiled_graphs(graph.compiled):
            _log_compiled(part)
    for record in entry.breaks:
        _BREAKS("graph break: %s", record)
    if entry.eager:
        _BREAKS("%s runs in eager mode: %s", entry.name, entry.eager)
    if _GUARDS.on:
        _GUARDS("%s is used again while\n%s", entry.name, entry.guards)
    if _DYNAMIC.on:
        _log_sizes(entry)
    if entry.recalled:
        _CACHE("%s: an entry that an earlier process has stored", entry.name)
    if _CODE.on:
        _CODE("glue of %s:\n%s", entry.name, entry.code)
    if _PERF.on:
        _PERF("%s: %s", entry.name, times_text(entry.seconds))


def _write_stages(folder: Path, entry: Entry) -> None:
    """A folder that cannot be written is no reason for a program to stop."""
    from ..inspect.debug import write_entry

    try:
        write_entry(folder, entry)
    except OSError as error:
        warnings.warn(
            f"minicompile: the stages of {entry.name} are not in the debug folder: {error}. Name one that can be "
            "written, by MINICOMPILE_DEBUG or minicompile.config.debug_dir, or None.",
            RuntimeWarning,
            stacklevel=2,
        )


def times_text(seconds: dict[str, float]) -> str:
    """The stages, and what of them is the frontend: all but the backend, which compiles the graph."""
    stages = ", ".join(f"{stage} {taken * 1e3:.1f} ms" for stage, taken in seconds.items())
    whole = sum(seconds.values())
    share = (whole - seconds.get("backend", 0.0)) / whole if whole else 0.0
    return f"{stages}; the frontend's share is {share:.0%} of {whole * 1e3:.1f} ms"


def log_opened(name: str, opened: list[str]) -> None:
    """Say what becomes an input because it was seen to vary."""
    for text in opened:
        _DYNAMIC("%s: %s varies, and is an input from now on", name, text)


def _log_sizes(entry: Entry) -> None:
    """What is assumed about numbers that are open, and where."""
    from ..guards.sizes import SizeGuard

    facts = [(guard.text(), entry.guards.cause(guard)) for guard in entry.guards if isinstance(guard, SizeGuard)]
    if facts:
        lines = "\n".join(f"  {fact}{f'  # {cause}' if cause else ''}" for fact, cause in facts)
        _DYNAMIC("%s has open sizes or numbers; for all of which holds\n%s", entry.name, lines)


def _compiled_graphs(compiled: Any) -> list[Any]:
    """What code generation made of a graph: one, two with a backward that was compiled, none of another backend."""
    parts = [compiled, getattr(compiled, "forward", None)]
    return [part for part in parts if isinstance(part, CompiledGraph)]


def _log_compiled(graph: CompiledGraph) -> None:
    if _IR.on:
        if graph.ir_before is not None:
            _IR("%s before the passes:\n%s", graph.name, graph.ir_before)
        _IR("%s after the passes:\n%s", graph.name, graph.ir)
    if _FUSION.on:  # a recalled graph unpacks its decisions when they are asked for
        for decision in graph.decisions:
            _FUSION("%s: %s", graph.name, decision)
    if _KERNELS.on:
        _KERNELS("%s", graph.describe().partition("\n  fusion:")[0])
    if _CODE.on:
        _CODE("%s:\n%s\n%s", graph.name, graph.wrapper_source, graph.native_source)
    if _PERF.on:
        _PERF("%s: %s", graph.name, ", ".join(f"{stage} {s * 1e3:.1f} ms" for stage, s in graph.seconds.items()))


def graph_text(gm: torch.fx.GraphModule) -> str:
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
