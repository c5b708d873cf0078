"""minicompile: a complete, readable, fast re-implementation of the torch.compile stack.

In: a Python function or module that computes with torch. Out: the same, compiled: `minicompile.compile(fn)`.

All but `config` are loaded when first used, so that importing the package costs nothing that a program does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import config  # bound here, before anything else can: a submodule's import binds its name in the package
from .version import __version__

if TYPE_CHECKING:
    from .api import (
        allow_in_graph,
        assume_constant_result,
        compile,
        disable,
        graph_break,
        is_compiling,
        mark_dynamic,
        mark_static,
        reset,
        stats,
    )
    from .backends import list_backends, register_backend
    from .buckets import bucket
    from .inspect.compare import compare
    from .inspect.explain import explain
    from .inspect.explore import explore
    from .logs import set_logs

_HOMES = {
    **dict.fromkeys(
        (
            "allow_in_graph",
            "assume_constant_result",
            "compile",
            "disable",
            "graph_break",
            "is_compiling",
            "mark_dynamic",
            "mark_static",
            "reset",
            "stats",
        ),
        "api",
    ),
    **dict.fromkeys(("list_backends", "register_backend"), "backends"),
    "bucket": "buckets",
    "compare": "inspect.compare",
    "explain": "inspect.explain",
    "explore": "inspect.explore",
    "set_logs": "logs",
}

__all__ = [
    "__version__",
    "allow_in_graph",
    "assume_constant_result",
    "bucket",
    "compare",
    "compile",
    "config",
    "disable",
    "explain",
    "explore",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "register_backend",
    "reset",
    "set_logs",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minicompile' has no attribute {name!r}")
    from importlib import import_module

    from .runtime.collector import paused

    with paused():
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
