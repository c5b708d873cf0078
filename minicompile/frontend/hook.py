"""The Python face of the frame-evaluation hook (eval_frame.c), and what stands in for it where it can't be built.

In: `run(ctx, fn, args, kwargs)`, with which a compiled function starts its original under its own compile context, and
a callback that is asked once per (context, code object) for a dispatcher. Out: each frame that starts in that call,
in that thread, goes to its dispatcher, which is called as `dispatcher(function, *raw_arguments)`: positional
arguments, keyword-only ones, the tuple of *args, the dict of **kwargs, in the order of `co_varnames`. A dispatcher
returns the frame's result, or EAGER to have the frame run untouched.

A dispatcher is owned by its context, through an attribute of the context, and code objects refer to it weakly: when a
compiled function is no longer used, everything compiled for it goes. (A context without a `__dict__`, or that can't be
weakly referenced, is kept until `forget`.)

Without the extension the functions below have the same signatures; `run` then simply calls, and compiled functions
bind arguments and call their dispatcher themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

__all__ = ["EAGER", "available", "current", "forget", "run", "run_off", "set_callback", "skip", "unavailable_reason"]

Dispatcher = Callable[..., Any]
Callback = Callable[[Any, FunctionType], Dispatcher | None]

_problem = ""
try:
    from minicompile.frontend import _eval_frame as _native
except ImportError as error:  # not built for this Python, or built for another one
    _native = None  # type: ignore[assignment]
    _problem = str(error)


def available() -> bool:
    """Whether frames can be hooked in this Python."""
    return _native is not None


def unavailable_reason() -> str:
    """Why not, or "" when they can."""
    return _problem


if _native is not None:
    EAGER = _native.EAGER
    run = _native.run
    run_off = _native.run_off
    current = _native.current
    set_callback = _native.set_callback
    skip = _native.skip
    forget = _native.forget
else:
    EAGER = object()
    _thread = threading.local()

    def run(ctx: Any, fn: Callable, args: tuple, kwargs: dict | None = None) -> Any:
        """Call fn under ctx. `current()` is ctx meanwhile, but no frame is hooked."""
        return _call_under(ctx, fn, args, kwargs or {})

    def run_off(fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
        """Call fn under no context."""
        return _call_under(None, fn, args, kwargs)

    def current() -> Any:
        """The context that this thread runs under, or None."""
        return getattr(_thread, "ctx", None)

    def set_callback(callback: Callback | None) -> None:
        """Nothing: there are no frames to ask about."""

    def skip(code: CodeType) -> None:
        """Nothing: no frame is hooked."""

    def forget(code: CodeType, ctx: Any = None) -> None:
        """Nothing: nothing is stored on code objects."""

    def _call_under(ctx: Any, fn: Callable, args: tuple, kwargs: dict) -> Any:
        outer = current()
        _thread.ctx = ctx
        try:
            return fn(*args, **kwargs)
        finally:
            _thread.ctx = outer
