"""`functools.lru_cache` and `functools.cache`.

In: functions with a cache, from outside or made in the frame. Out: their results.

One from outside is asked for real, while tracing and again by a guard at every call: so its cache, with all that it
remembers and forgets, is the program's own. Where its arguments are sizes that vary it is traced into, if it does
nothing but compute. One made in the frame is traced into, once for each set of arguments.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ...guards.constants import constant_key, is_constant
from ...guards.kinds import ConstantGuard
from ..breaks import unsupported_call
from ..computed_sources import CallSource
from ..sources import AttrSource
from .base import Args, Kwargs, Lazy, NotConstant, OpaqueValue, Value
from .callables import rule
from .checkpointing import reachable
from .constant import ConstantValue, OpenValue
from .containers import AttributeDictValue, SequenceValue
from .data_floats import depends_on_data
from .objects import ObjectValue
from .tensor import TensorValue

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
        name = f"{getattr(self.obj, '__name__', 'a function')}()"
        try:
            values = [_argument(tr, arg.realize(tr)) for arg in args]
            named = {key: _argument(tr, value.realize(tr)) for key, value in kwargs.items()}
        except NotConstant:
            return self._with_open_numbers(tr, name, args, kwargs)
        call = self._kept_call(tr, values, named)
        result = _for_real(call, name)
        source = CallSource(tr.anchor(call))
        if is_constant(result):
            tr.guard(ConstantGuard(source, result))
            return tr.constant(result)
        tr.is_portable = False
        return tr.wrap(result, source)

    def _kept_call(self, tr: Tracer, values: list[Any], named: dict[str, Any]) -> Any:
        """The call as an object, one for all calls with these arguments."""
        key = (id(self.obj), *map(constant_key, values), *((key, constant_key(value)) for key, value in named.items()))
        return tr.cached_calls.setdefault(key, functools.partial(self.obj, *values, **named))

    def _with_open_numbers(self, tr: Tracer, name: str, args: Args, kwargs: Kwargs) -> Value:
        """For sizes that are symbols the function is traced into: what it gives is the same, unless it does more."""
        inner = getattr(self.obj, "__wrapped__", None)
        values = [value.realize(tr) for value in (*args, *kwargs.values())]
        if not isinstance(inner, FunctionType) or not all(_is_plain(tr, value) for value in values):
            raise unsupported_call(name, "has a cache, and arguments that are no constants")
        assert self.source is not None
        with tr.unchanged(f"{name}, which has a cache,", set(map(id, values))):
            result = tr.wrap(inner, AttrSource(self.source, "__wrapped__")).call(tr, args, kwargs)
        if any(isinstance(part, TensorValue) for part in reachable([result])):
            raise unsupported_call(name, "has a cache, and makes tensors of a size that varies")
        tr.remembered_elsewhere(result, unsupported_call(name, "has a cache, and a result that is changed or goes out"))
        return result


def _argument(tr: Tracer, value: Value) -> Any:
    """A constant, or an object that is its own key."""
    if not isinstance(value, ObjectValue) or value.source is None or tr.has_changed(value.obj):
        return value.const(tr)
    if value.cls.__hash__ is not object.__hash__ or value.cls.__eq__ is not object.__eq__:
        raise NotConstant
    tr.guard_identity(value.source, value.obj)
    tr.is_portable = False
    return value.obj


def _is_plain(tr: Tracer, value: Value) -> bool:
    """Whether it is made of numbers, texts, tuples and objects that are their own keys."""
    if isinstance(value, SequenceValue):
        return not value.mutable and all(_is_plain(tr, item.realize(tr)) for item in value.elements)
    if isinstance(value, ObjectValue):
        return value.cls.__hash__ is object.__hash__ and value.cls.__eq__ is object.__eq__
    return isinstance(value, (ConstantValue, OpenValue)) and not depends_on_data(value)


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
