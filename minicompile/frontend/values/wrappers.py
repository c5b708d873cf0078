"""Functions of the standard library that wrap one of the program's, and whose own bookkeeping is not to be traced.

In: calls of `functools.singledispatch` functions, and of `__repr__` methods that guard against recursion. Out: a call
of the function that they come down to, under guards on what chose it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import reprlib
import types
from typing import TYPE_CHECKING, Any

from .. import polyfills
from ..breaks import unsupported_call
from .base import Args, Kwargs, Value
from .callables import class_object, traced_as
from .containers import DictValue
from .contexts import manager_method

if TYPE_CHECKING:
    from ..tracer import Tracer
    from .functions import FunctionValue


def _nothing(self: Any) -> str:
    return ""


_REPR_WRAPPERS = {
    code
    for wrap in (getattr(dataclasses, "_recursive_repr", None), reprlib.recursive_repr())
    if wrap is not None
    for code in [wrap(_nothing).__code__]
}
"""Their wrappers only look out for objects that hold themselves; tracing ends at some depth without them."""
_DISPATCH = functools.singledispatch(_nothing).dispatch.__code__  # type: ignore[attr-defined]


def unwrapped_call(tr: Tracer, fn: FunctionValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The call of what the function wraps; None for any other function."""
    if fn.code in _REPR_WRAPPERS:
        return _cell(fn, "user_function").realize(tr).call(tr, args, kwargs)
    if fn.code is _DISPATCH and fn.fn is not None and len(args) == 1:
        return _implementation(tr, fn, fn.fn, class_object(args[0].realize(tr)))
    method = manager_method(tr, fn, args)
    return method.call(tr, [], {}) if method is not None else None


traced_as(collections._count_elements, polyfills.count_elements)  # type: ignore[attr-defined]
traced_as(functools.partialmethod.__get__, polyfills.bound_partial)
if hasattr(functools.singledispatchmethod(_nothing), "_method_cache"):  # Python 3.13
    traced_as(functools.singledispatchmethod.__get__, polyfills.bound_dispatch)


def _cell(fn: FunctionValue, name: str) -> Value:
    contents = fn.closure[fn.code.co_freevars.index(name)].contents
    assert contents is not None
    return contents


def _implementation(tr: Tracer, fn: FunctionValue, dispatch: types.FunctionType, cls: type) -> Value:
    """The function that is registered for a class or the nearest of its bases. Which are registered is guarded."""
    registry = _cell(fn, "registry").realize(tr)
    found: Any = dispatch(cls)
    if not isinstance(registry, DictValue) or any(hasattr(key, "__abstractmethods__") for key in _classes(registry)):
        raise unsupported_call(f"{fn.name}()", "chooses among abstract classes")
    for value in registry.entries.values():
        if getattr(value, "obj", None) is found:
            return value
    raise unsupported_call(f"{fn.name}()")


def _classes(registry: DictValue) -> list[Any]:
    return [getattr(key, "cls", getattr(key, "fn", key)) for key in registry.entries]


__all__ = ["unwrapped_call"]
