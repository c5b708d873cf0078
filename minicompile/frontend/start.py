"""How a compiled function starts, and what the program may tell the frontend about its functions.

In: a resolved backend and options. Out: a compile context whose `start` runs a callable compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import api
from . import hook, interpreter
from .breaks import Break, BreakKind
from .segments import CompileContext, hook_callback
from .values.base import Value
from .values.builtins import RULES, rule
from .values.constant import ConstantValue

_hook_is_set = False


def make_context(backend: Callable[..., Any], *, dynamic: bool | None, fullgraph: bool) -> CompileContext:
    """A fresh context; sets the hook up on first use."""
    global _hook_is_set
    if not _hook_is_set:
        hook.set_callback(hook_callback)
        _hook_is_set = True
    context = CompileContext(backend, dynamic=dynamic, fullgraph=fullgraph, use_hook=hook.available())
    context.run = hook.run if context.use_hook else run_wrapped
    return context


def run_wrapped(context: CompileContext, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`hook.run` where there is no hook."""
    return context.call_wrapped(fn, args, kwargs, forced=True)


def allow_function(fn: Any) -> None:
    """Calls of `fn` become graph nodes."""

    def trace(tr: Any, *args: Value, **kwargs: Value) -> Value:
        return tr.torch_call(fn, list(args), kwargs)

    RULES[fn] = trace


def assume_constant(fn: Any) -> None:
    """Calls of `fn` are made while tracing, and their results kept."""

    def trace(tr: Any, *args: Value, **kwargs: Value) -> Value:
        values = [arg.realize(tr).const(tr) for arg in args]
        return tr.constant(fn(*values, **{key: value.realize(tr).const(tr) for key, value in kwargs.items()}))

    RULES[fn] = trace


@rule(api.graph_break)
def _graph_break(tr: Any) -> Value:
    raise Break(BreakKind.EXPLICIT, "The program asks for a graph break here.")


@rule(api.is_compiling)
def _is_compiling(tr: Any) -> Value:
    return ConstantValue(True)


assert interpreter.HANDLERS
