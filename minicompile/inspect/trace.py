"""Traces for Chrome's and Perfetto's viewers, and readable names for torch.profiler.

In: compiled functions. Out: a JSON file with the stages of every entry's compilation; within `kernel_ranges`, each
kernel, extern call and graph of theirs is a `record_function` range, so that a profile shows `kernel_0_exp_sum_div` and
`minicompile forward (model.py:12)`.

Outside of the block calls cost nothing more: the ranges are put around the functions that generated code names, and
taken away again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .stacks import compiled_halves, own_stages

if TYPE_CHECKING:
    from ..frontend.segments import Entry

_US = 1e6


def compile_events(entries: list[Entry]) -> list[dict[str, Any]]:
    """The stages of each entry, one behind the other, as complete events of the trace format ("ph": "X")."""
    events, now = [], 0.0
    for number, entry in enumerate(entries):
        begin = now
        for stage, spent in _stages(entry).items():
            events.append(_event(stage, now, spent, number, {"entry": entry.name}))
            now += spent
        whole = _event(f"compile {entry.name}", begin, now - begin, number, {"guards": len(entry.guards)})
        events.insert(len(events) - len(_stages(entry)), whole)
    return events


def _stages(entry: Entry) -> dict[str, float]:
    stages = {name: spent for name, spent in entry.seconds.items() if name not in ("backend", "glue")}
    for graph in entry.graphs:
        for name, spent in own_stages(getattr(graph.compiled, "seconds", None) or {}).items():
            stages[name] = stages.get(name, 0.0) + spent
    return {**stages, **({"glue": entry.seconds["glue"]} if "glue" in entry.seconds else {})}


def _event(name: str, start: float, spent: float, row: int, args: dict[str, Any]) -> dict[str, Any]:
    place = {"pid": "minicompile: compilation", "tid": f"entry {row}"}
    return {"name": name, "ph": "X", "cat": "compile", "ts": start * _US, "dur": spent * _US, "args": args, **place}


@contextmanager
def kernel_ranges(compiled: Any) -> Iterator[None]:
    """Ranges around the graphs, kernels and extern calls of a compiled function's entries, for the time of the block.

    Entries that are made in the block are not covered; graphs that are replayed as CUDA graphs show as one range.
    """
    with ExitStack() as stack:
        for entry in compiled.entries:
            for graph in entry.graphs:
                stack.enter_context(_replaced(entry.run, "__graph__", f"minicompile {entry.name}"))
                for half in compiled_halves(graph.compiled):
                    names = {kernel.name for kernel in half.kernels}
                    for name, label in _labels(half.objects, names, half.externs).items():
                        stack.enter_context(_replaced(half.call, name, label))
        yield


def _labels(objects: dict[str, Any], kernels: set[str], externs: list[str]) -> dict[str, str]:
    """Name in the wrapper → name in a profile."""
    labels = {name: name for name in objects if name in kernels}
    labels |= {f"extern_{number}": target for number, target in enumerate(externs) if f"extern_{number}" in objects}
    return labels


@contextmanager
def _replaced(function: Any, name: str, label: str) -> Iterator[None]:
    """A global of a generated function, inside a range."""
    namespace = getattr(function, "__globals__", {})
    original = namespace.get(name)
    if original is None:
        yield
        return
    namespace[name] = _ranged(original, label)
    try:
        yield
    finally:
        namespace[name] = original


def _ranged(original: Callable[..., Any], label: str) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with torch.profiler.record_function(label):
            return original(*args)

    return run


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
    with kernel_ranges(compiled), torch.profiler.profile(activities=kinds) as profile:
        for _ in range(calls):
            compiled(*args)
    profile.export_chrome_trace(str(path))
    data = json.loads(path.read_text())
    data["traceEvents"] = [*compile_events(compiled.entries), *data.get("traceEvents", [])]
    path.write_text(json.dumps(data))
    return path
