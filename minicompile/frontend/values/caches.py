"""`functools.lru_cache` and `functools.cache`.

In: functions with a cache, from outside or made in the frame. Out: their results.

One from outside is asked for real, while tracing and again by a guard at every call: so its cache, with all that it
remembers and forgets, is the program's own. One made in the frame is traced into, once for each set of arguments.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...guards.constants import is_constant
from ...guards.kinds import ConstantGuard
from ..breaks import unsupported_call
from ..computed_sources import CallSource
from ..sources import AttrSource
from .base import Args, Kwargs, Lazy, NotConstant, OpaqueValue, Value
from .callables import rule
from .containers import AttributeDictValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

CACHED: type = functools._lru_cache_wrapper


class CachedFunctionValue(OpaqueValue):
    """A function with a cache from outside."""

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name not in vars(self.obj) and name != "__dict__":
            raise self.cannot(f"reading attribute {name!r}")
        assert self.source is not None
        return Lazy(getattr(self.obj, name), AttrSource(self.source, name))

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.obj, name)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        name = f"{self.obj.__name__}()"
        try:
            values = [arg.realize(tr).const(tr) for arg in args]
            named = {key: value.realize(tr).const(tr) for key, value in kwargs.items()}
        except NotConstant:
            raise unsupported_call(name, "has a cache, and arguments that are no constants") from None
        call = functools.partial(self.obj, *values, **named)
        result = _for_real(call, name)
        if not is_constant(result):
            raise unsupported_call(name, "has a cache, and a result that is no constant")
        tr.guard(ConstantGuard(CallSource(tr.anchor(call)), result))
        return tr.constant(result)


def _for_real(call: Any, name: str) -> Any:
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    try:
        with unset_fake_temporarily():
            return call()
    except Exception as error:  # the program's; the call in its place raises it again
        raise unsupported_call(name, f"has a cache, and raises {type(error).__name__}") from error


class NewCacheValue(Value):
    """A function with a cache, made in the frame."""

    def __init__(self, function: Value, maxsize: int | None, typed: bool) -> None:
        self.function = function
        self.maxsize = maxsize
        self.typed = typed
        self.known: dict[Any, Value] = {}
        self.attributes: dict[str, Value] = {}

    def python_type(self) -> type:
        return CACHED

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        keys = [tr.key(arg) for arg in args]
        named = {key: tr.key(value) for key, value in kwargs.items()}
        key = functools._make_key(tuple(keys), named, self.typed)  # type: ignore[attr-defined]
        if key not in self.known:
            if self.maxsize is not None and len(self.known) >= self.maxsize:
                raise unsupported_call("a function", "has a full cache")
            self.known[key] = self.function.realize(tr).call(tr, args, kwargs)
            tr.changed()
        return self.known[key]

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "__dict__":
            return AttributeDictValue(self, self.attributes)
        return self.function.realize(tr).getattr(tr, name)

    def setattr(self, tr: Tracer, name: str, value: Value) -> None:
        self.attributes[name] = value
        tr.changed()

    def build(self, glue: Glue) -> str:
        if self.known:
            raise self.cannot("rebuilding, with what it remembers,")
        return f"{glue.keep(functools.lru_cache)}({self.maxsize}, {self.typed})({glue.ref(self.function)})"


@rule(CACHED)
def _make(tr: Tracer, function: Value, maxsize: Value, typed: Value, info: Value) -> Value:
    return NewCacheValue(function, maxsize.realize(tr).const(tr), typed.realize(tr).truth(tr))


__all__ = ["CACHED", "CachedFunctionValue"]
