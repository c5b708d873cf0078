"""How a compiled function starts.

In: a callable, a resolved backend and options. Out: a compile context whose `run(context, fn, args, kwargs)` calls it
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import hook
from .binding import python_function
from .segments import CompileContext, hook_callback


def make_context(
    fn: Callable[..., Any], backend: Callable[..., Any], *, dynamic: bool | None, fullgraph: bool
) -> CompileContext:
    """A fresh context for a callable."""
    hook.set_callback(hook_callback)
    context = CompileContext(backend, dynamic=dynamic, fullgraph=fullgraph, use_hook=hook.available())
    context.run = hook.run if context.use_hook else run_wrapped
    found = python_function(fn, ())
    context.root_code = found[0].__code__ if found is not None else None
    return context


def run_wrapped(context: CompileContext, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`hook.run` where there is no hook."""
    return context.call_wrapped(fn, args, kwargs, forced=True)

