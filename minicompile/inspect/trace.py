"""Traces for Chrome's and Perfetto's viewers.

In: compiled functions. Out: a JSON file with the stages of compilation, each when it ran and in which thread, on the
clock of torch.profiler's own events: calls, kernels and extern calls by name (see runtime/profiled.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..timeline import Span, within
from .stacks import compiled_halves

if TYPE_CHECKING:
    from ..frontend.segments import Entry

_US = 1e6


def compile_events(entries: list[Entry], base: float = 0.0) -> list[dict[str, Any]]:
    """The stages of each entry, and of backward graphs that were compiled later, as complete events of the trace format
    ("ph": "X"): those of a thread nest and follow one another as they ran.

    Args:
        base: the trace's beginning, in seconds since 1970.
    """
    offset = time.time() - time.perf_counter() - base
    return [_event(part, offset) for span in _spans(entries) for part in within(span)]


def _spans(entries: list[Entry]) -> Iterator[Span]:
    for entry in entries:
        halves = [half for graph in entry.graphs for half in compiled_halves(graph.compiled)]
        yield from filter(None, [entry.span, *(half.span for half in halves)])


def _event(span: Span, offset: float) -> dict[str, Any]:
    place = {"pid": "minicompile: compilation", "tid": f"thread {span.thread}"}
    times = {"ts": (span.start + offset) * _US, "dur": (span.end - span.start) * _US}
    return {"name": span.name, "ph": "X", "cat": "compile", **times, **place}


def write_trace(compiled: Any, args: tuple[Any, ...], path: str | Path, *, calls: int = 3) -> Path:
    """Profile some calls of a compiled function, and write them with its compilation into one file.

    Args:
        args: of the calls; a first one, which may compile, is not profiled.
        path: the file, for chrome://tracing or ui.perfetto.dev.
    """
    compiled(*args)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    path = Path(path)
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(calls):
            compiled(*args)
    profile.export_chrome_trace(str(path))
    data = json.loads(path.read_text())
    base = data.get("baseTimeNanoseconds", 0) / 1e9
    data["traceEvents"] = [*compile_events(compiled.entries, base), *data.get("traceEvents", [])]
    path.write_text(json.dumps(data))
    return path
