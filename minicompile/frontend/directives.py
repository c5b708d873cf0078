"""What a program says to the compiler about its own functions.

In: calls and decorators in the user's code; outside compiled code they do nothing, or what the plain function does.
Out: marks and a registry that the tracer reads. This file imports nothing heavy: it comes with `import minicompile`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

allowed_in_graph: set[Any] = set()
constant_results: set[Any] = set()


def disable(fn: F) -> F:
    """A function that is never compiled nor traced into, nor is anything that it calls.

    Raises TypeError for what cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"minicompile.disable needs a callable, got {type(fn).__name__}")

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        from . import hook

        return hook.run_off(fn, *args, **kwargs)

    disabled.__minicompile_disable__ = True  # type: ignore[attr-defined]
    return disabled  # type: ignore[return-value]


def graph_break() -> None:
    """End the graph here. Does nothing outside compiled code."""


def is_compiling() -> bool:
    """True while code is being traced into a graph, False when it runs as it stands."""
    return False


def allow_in_graph(fn: F) -> F:
    """Make calls of `fn` nodes of the graph instead of tracing into it. It must be a function of tensors and constants.

    Raises TypeError for something that is not a plain function.
    """
    _check(fn, "allow_in_graph")
    allowed_in_graph.add(fn)
    return fn


def assume_constant_result(fn: F) -> F:
    """Promise that `fn` always returns the same for the same constants: it is called once, while tracing.

    Raises TypeError for something that is not a plain function.
    """
    _check(fn, "assume_constant_result")
    constant_results.add(fn)
    return fn


def _check(fn: Any, who: str) -> None:
    import types

    if not isinstance(fn, (types.FunctionType, types.BuiltinFunctionType)):
        raise TypeError(f"minicompile.{who} needs a plain function, got {type(fn).__name__}")
