"""What to look at, and why there is nothing to see.

In: what the user wants to be explained, explored or compared. Out: it compiled, or an error where it is a class; for
something of which no frame was ever compiled, why that is so, in plain words.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any


def compiled_for_looking(fn: Any, **options: Any) -> Any:
    """A function that `minicompile.compile` returned, as it stands; anything else compiled afresh.

    Raises:
        TypeError: a class. Compiling it would change it for good; an object of it is what can be looked at.
    """
    from ..api import CompiledFunction, CompiledModule, compile

    if isinstance(fn, type):
        raise TypeError(f"{fn.__name__} is a class: make an object of it, and look at what a call of that becomes")
    return fn if isinstance(fn, (CompiledFunction, CompiledModule)) else compile(fn, **options)


def why_uncompiled(compiled: Any) -> str:
    """Why a call of this left no entries."""
    from ..api import CompiledFunction

    fn = _innermost(compiled.__minicompile_original__)
    if isinstance(fn, CompiledFunction):
        return "it is compiled already, by a decorator of its own"
    for is_kind, kind in _KINDS:
        if is_kind(fn):
            return f"it is {kind}, whose frame runs piece by piece; compile the functions that it calls"
    if not isinstance(fn, types.FunctionType):
        return "it is written in C: there is no bytecode to interpret"
    from ..frontend.skip import why_not_function

    return why_not_function(fn) or "no frame of it was met"


_KINDS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.isgeneratorfunction, "a generator"),
    (inspect.iscoroutinefunction, "a coroutine"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
)


def _innermost(fn: Any) -> Any:
    """The function under methods, partial objects, modules and callable objects."""
    import torch

    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif isinstance(fn, torch.nn.Module):
            fn = fn.forward
        elif isinstance(getattr(type(fn), "__call__", None), types.FunctionType) and not _is_compiled(fn):  # noqa: B004
            fn = type(fn).__call__
        else:
            return fn


def _is_compiled(fn: Any) -> bool:
    return getattr(type(fn), "__minicompile_compiled__", None) is True
