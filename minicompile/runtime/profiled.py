"""Readable names in torch.profiler: each kernel, extern call and graph of ours is a `record_function` range.

In: compiled graphs and entries, as they are made. Out: nothing, until a profiler starts: then the functions that their
generated code names are put into ranges, and taken out again when it stops. Without a profiler calls cost nothing more.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..torch_compat import when_profiling
from .runs import Run, StepByStep

_lock = threading.Lock()
_known: dict[int, weakref.ref[Any]] = {}
_originals: list[tuple[dict[str, Any], str, Any]] | None = None
_is_watching = False


def note(made: Any) -> None:
    """Of a `CompiledGraph`, or an entry of the frontend: profiles are to show its calls by name."""
    global _is_watching
    key = id(made)
    with _lock:
        _known[key] = weakref.ref(made, lambda _: _known.pop(key, None))
        if not _is_watching:
            _is_watching = True
            when_profiling(_start, _stop)
        if _originals is not None:
            _put_in_ranges(made, _originals)


def _start() -> None:
    global _originals
    with _lock:
        _originals = []
        for reference in list(_known.values()):
            made = reference()
            if made is not None:
                _put_in_ranges(made, _originals)


def _stop() -> None:
    global _originals
    with _lock:
        for namespace, name, original in _originals or ():
            namespace[name] = original
        _originals = None


def _put_in_ranges(made: Any, originals: list[tuple[dict[str, Any], str, Any]]) -> None:
    for function, name, label in _calls_of(made):
        namespace = getattr(function, "__globals__", {})
        if namespace.get(name) is not None:
            originals.append((namespace, name, namespace[name]))
            namespace[name] = _ranged(namespace[name], label)
    for name, run in _runs_of(made):
        namespace = made.call.__globals__
        originals.append((namespace, name, namespace[name]))
        namespace[name] = StepByStep(run, namespace)  # so that its kernels are seen


def _calls_of(made: Any) -> Iterator[tuple[Any, str, str]]:
    """A generated function, what it calls, and how that is called in a profile."""
    if not hasattr(made, "objects"):
        yield made.run, "__graph__", f"minicompile {made.name}"
        return
    for kernel in made.kernels:
        if kernel.name in made.objects:
            yield made.call, kernel.name, kernel.name
    for number, target in enumerate(made.externs):
        if f"extern_{number}" in made.objects:
            yield made.call, f"extern_{number}", target


def _runs_of(made: Any) -> Iterator[tuple[str, Run]]:
    """The native calls of several kernels in a graph's generated function."""
    if hasattr(getattr(made, "call", None), "__globals__"):
        yield from ((name, value) for name, value in getattr(made, "objects", {}).items() if isinstance(value, Run))


def _ranged(original: Callable[..., Any], label: str) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.profiler.record_function(label):
            return original(*args, **kwargs)

    return run
