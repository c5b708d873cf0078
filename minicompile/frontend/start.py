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
from .skip import is_made_by_transform


def make_context(
    fn: Callable[..., Any], backend: Callable[..., Any], *, dynamic: bool | None, fullgraph: bool
) -> CompileContext:
    """A fresh context for a callable."""
    hook.set_callback(hook_callback)
    context = CompileContext(backend, dynamic=dynamic, fullgraph=fullgraph, use_hook=hook.available())
    context.run = hook.run if context.use_hook else run_wrapped
    found = python_function(fn, ())
    if found is not None and is_made_by_transform(found[0].__code__):
        fn, context.run = _through_a_call(fn, context.run)
        found = python_function(fn, ())
    context.root_code = found[0].__code__ if found is not None else None
    return context


def run_wrapped(context: CompileContext, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`hook.run` where there is no hook."""
    return context.call_wrapped(fn, args, kwargs, forced=True)


def _through_a_call(fn: Callable[..., Any], run: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function that calls `fn`, and how it runs in the place of `fn`.

    What `torch.vmap` returns is a part of torch, whose frame is not for tracing; a call of it is.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call, lambda context, _, args, kwargs: run(context, call, args, kwargs)
