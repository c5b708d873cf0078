"""Binding arguments without a frame: how the door without a hook gets raw argument slots.

In: a callable and the arguments of a call. Out: the Python function that will run, and its argument slots as the hook
would see them: positional, keyword-only, *args, **kwargs.

CPython itself does the binding: for each code object a tiny function with the same signature returns its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType, MethodType
from typing import Any

from .layout import argument_names

_binders: dict[int, tuple[CodeType, FunctionType]] = {}


def bind_raw(func: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The argument slots of a call. Raises the TypeError that the call itself would raise."""
    code = func.__code__
    found = _binders.get(id(code))
    if found is None:
        found = _binders[id(code)] = (code, _make_binder(code))
    binder = FunctionType(found[1].__code__, {}, func.__name__, func.__defaults__, None)
    binder.__kwdefaults__ = func.__kwdefaults__
    binder.__qualname__ = func.__qualname__
    return binder(*args, **kwargs)


def binding_error(
    code: CodeType, name: str, defaults: int, named: Iterable[str], args: int, keys: Iterable[str]
) -> TypeError | None:
    """What CPython raises where a function is called with that many arguments and these keywords; None if it does not.

    `defaults`, `named`: how many parameters, and which keyword-only ones, have a default; `name`: its qualified name.
    """
    binder = _make_binder(code)
    binder.__defaults__ = (None,) * defaults
    binder.__kwdefaults__ = dict.fromkeys(named)
    binder.__qualname__ = name
    try:
        binder(*(None,) * args, **dict.fromkeys(keys))
    except TypeError as error:
        return error
    return None


def _make_binder(code: CodeType) -> FunctionType:
    names = list(argument_names(code))
    safe = {name: name if name.isidentifier() else f"_{index}" for index, name in enumerate(names)}
    positional = [safe[name] for name in names[: code.co_argcount]]
    if code.co_posonlyargcount:
        positional.insert(code.co_posonlyargcount, "/")
    keyword_only = [safe[name] for name in names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]]
    rest = [safe[name] for name in names[code.co_argcount + code.co_kwonlyargcount :]]
    parts = list(positional)
    if code.co_flags & CO_VARARGS:
        parts.append(f"*{rest.pop(0)}")
    elif keyword_only:
        parts.append("*")
    parts += keyword_only
    if code.co_flags & CO_VARKEYWORDS:
        parts.append(f"**{rest.pop(0)}")
    namespace: dict[str, Any] = {}
    result = "".join(f"{safe[name]}, " for name in names)
    exec(f"def bind({', '.join(parts)}): return ({result})", namespace)
    return namespace["bind"]


def python_function(fn: Any, args: tuple[Any, ...]) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The function whose frame a call of `fn` runs, with its positional arguments; None if it is none of ours to see.

    Follows bound methods, nn.Modules without hooks, and objects with a Python `__call__`.
    """
    import torch

    if isinstance(fn, FunctionType):
        return fn, args
    if isinstance(fn, MethodType):
        return python_function(fn.__func__, (fn.__self__, *args))
    if isinstance(fn, torch.nn.Module):
        if not _is_plain_module(fn):
            return None
        return python_function(fn.forward, args)
    call = next((base.__dict__["__call__"] for base in type(fn).__mro__ if "__call__" in base.__dict__), None)
    return (call, (fn, *args)) if isinstance(call, FunctionType) else None


def _is_plain_module(module: Any) -> bool:
    import torch
    import torch.nn.modules.module as torch_module

    own = any(
        getattr(module, name)
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    )
    shared = any(
        getattr(torch_module, f"_global_{name}_hooks")
        for name in ("forward", "forward_pre", "backward", "backward_pre")
    )
    is_plain_call = type(module).__call__ is torch.nn.Module.__call__ and module._compiled_call_impl is None
    return is_plain_call and not own and not shared and not isinstance(module, torch.jit.ScriptModule)
