"""Builtin functions, library functions and torch functions as callables.

In: the function object and values. Out: by table, in this order: a rule of our own (`rule`), a graph node for torch
functions, the folded result for pure functions of constants, else a break.

A rule is a Python function `(tracer, *args, **kwargs) -> value` registered for a function object with `@rule(fn)`.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.library import CustomOpDef

from ...guards.constants import is_constant, is_numpy_number
from ..breaks import unsupported_call
from ..directives import allowed_in_graph, constant_results
from .base import Args, Kwargs, NotConstant, Value, fail
from .computed import call_computed
from .constant import UNCHANGING, ConstantValue
from .data_floats import call_data_float

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

Rule = Callable[..., Value]
RULES: dict[Any, Rule] = {}
"""Function object → how to trace a call of it."""


def rule(*functions: Any) -> Callable[[Rule], Rule]:
    """Register a rule for function objects."""

    def register(fn: Rule) -> Rule:
        for function in functions:
            RULES[function] = fn
        return fn

    return register


def traced_as(original: Any, polyfill: Any) -> None:
    """A call of `original` is traced as one of `polyfill`, which is Python."""

    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        return tr.constant(polyfill).call(tr, list(args), kwargs)

    RULES[original] = trace


HASHED_BY_IDENTITY = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.MethodWrapperType, functools._lru_cache_wrapper, torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)  # fmt: skip


def is_safe_to_hash(obj: Any) -> bool:
    """Whether looking an object up in a dict runs no user code."""
    return isinstance(obj, HASHED_BY_IDENTITY) or (isinstance(obj, type) and type(obj).__hash__ is type.__hash__)


def has_rule(obj: Any) -> bool:
    """Whether there is a rule for this very object, of ours or by the user's word."""
    return is_safe_to_hash(obj) and (obj in RULES or obj in allowed_in_graph or obj in constant_results)


class CallableValue(Value):
    """A builtin, a library function or a torch function."""

    def __init__(self, fn: Any, source: Source | None = None) -> None:
        self.fn = fn
        self.source = source

    def python_type(self) -> type:
        return type(self.fn)

    def describe(self) -> str:
        return f"{function_name(self.fn)}()"

    def truth(self, tr: Tracer) -> bool:
        return True

    def has_attr(self, tr: Tracer, name: str) -> bool:
        return hasattr(self.fn, name)

    def getattr(self, tr: Tracer, name: str) -> Value:
        if not hasattr(self.fn, name):
            fail(AttributeError(f"'{type(self.fn).__name__}' object has no attribute '{name}'"))
        return tr.constant(getattr(self.fn, name))

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return call_object(tr, self.fn, args, kwargs)

    def build(self, glue: Glue) -> str:
        return glue.keep(self.fn)


def function_name(fn: Any) -> str:
    """How the user calls it: `torch.relu`, `len`, `math.sqrt`."""
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    module = getattr(fn, "__module__", None) or ""
    if module in ("builtins", "_operator") or not isinstance(module, str):
        return str(name)
    if module.startswith("torch"):
        from .torch_functions import torch_name

        return torch_name(fn)
    return f"{module}.{name}" if module else str(name)


def call_object(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """Call a function object that is known."""
    from .arrays import call_numpy, numpy_name
    from .torch_functions import call_torch, is_torch_function

    name = numpy_name(fn)
    if name is not None:
        return call_numpy(tr, name, args, kwargs)
    if isinstance(fn, CustomOpDef):
        return call_torch(tr, fn._opoverload, args, kwargs)
    if not is_safe_to_hash(fn):
        raise unsupported_call(f"{function_name(fn)}()")
    if fn in allowed_in_graph:
        tr.is_portable = False
        return tr.torch_call(fn, args, kwargs)
    if fn in constant_results:
        return _constant_result(tr, fn, args, kwargs)
    if is_tensor_getter(fn) and args:
        return args[0].realize(tr).getattr(tr, fn.__self__.__name__)
    found = RULES.get(fn)
    if found is not None:
        return _call_rule(tr, fn, found, args, kwargs)
    bound = _bound_to_container(tr, fn, args)
    if bound is not None:
        return bound.call(tr, args[1:], kwargs)
    if is_torch_function(fn):
        return call_torch(tr, fn, args, kwargs)
    if isinstance(fn, types.BuiltinMethodType) and fn.__name__ == "fromkeys" and fn.__self__ in (dict, OrderedDict):
        return _call_rule(tr, fn, functools.partial(_from_keys, kind=fn.__self__), args, kwargs)
    own = _own_method(tr, fn, args)
    if own is not None:
        return own.call(tr, args[1:], kwargs)
    result = _call_pure(tr, fn, args, kwargs) if is_pure(fn) else None
    if result is None:
        raise unsupported_call(f"{function_name(fn)}()")
    return result


def is_tensor_getter(fn: Any) -> bool:
    """Whether it reads an attribute of tensors: `torch.Tensor.shape.__get__`."""
    if not isinstance(fn, types.MethodWrapperType) or fn.__name__ != "__get__":
        return False
    return isinstance(fn.__self__, types.GetSetDescriptorType) and issubclass(torch.Tensor, fn.__self__.__objclass__)


def _call_pure(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """The result of a function without effects, if the operands are known or can stay open; None where not."""
    from .known_results import call_pattern
    from .texts import call_text, looked_at

    if getattr(fn, "__name__", "") in _READS_ALL:
        args = [_read(tr, arg.realize(tr)) for arg in args]
    rules = (call_data_float, call_computed, call_text, call_pattern)
    computed = next(filter(None, (rule(tr, fn, args) for rule in rules)), None) if not kwargs else None
    if computed is not None:
        return computed
    try:
        return tr.fold(fn, *args, **looked_at(fn, kwargs))
    except NotConstant:
        return None


def _bound_to_container(tr: Tracer, fn: Any, args: Args) -> Value | None:
    """`dict.get(d, key)`: a builtin container's method, called through its class."""
    from .containers import DictValue, SequenceValue, SetValue
    from .subclasses import SubclassValue

    if not isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)) or not args:
        return None
    owner, name = args[0].realize(tr), fn.__name__
    if isinstance(owner, SubclassValue):
        return owner.native_method(tr, name) if owner.is_native(fn) else None
    if isinstance(owner, (DictValue, SequenceValue, SetValue)) and issubclass(owner.kind, fn.__objclass__):
        return owner.getattr(tr, name) if fn.__objclass__ is not object else None
    return None


_PROTOCOLS = {round: "__round__", math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__"}


def _own_method(tr: Tracer, fn: Any, args: Args) -> Value | None:
    """The special method by which an object answers for a function; None if it has none."""
    from .objects import ObjectValue

    owner = args[0].realize(tr) if fn in _PROTOCOLS and args else None
    return owner.dunder(tr, _PROTOCOLS[fn]) if isinstance(owner, ObjectValue) else None


_READS_ALL = frozenset({"join", "prod", "fsum"})
"""Pure functions that read an iterable to its end before they do anything."""


def _read(tr: Tracer, value: Value) -> Value:
    """An iterator as the list of its elements; anything else as it is."""
    from .containers import SequenceValue
    from .generators import GeneratorValue
    from .iterators import Iterator

    return SequenceValue(list, value.items(tr)) if isinstance(value, (GeneratorValue, Iterator)) else value


def _from_keys(tr: Tracer, keys: Value, item: Value | None = None, /, *, kind: type) -> Value:
    """`dict.fromkeys(keys, item)`."""
    from .containers import DictValue

    result = DictValue(kind, {})
    for key in keys.realize(tr).items(tr):
        result.store(tr, key.realize(tr), item if item is not None else ConstantValue(None))
    return result


def _constant_result(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """The user has promised that the result never changes."""
    tr.is_portable = False
    values = [arg.realize(tr).const(tr) for arg in args]
    return tr.constant(fn(*values, **{key: value.realize(tr).const(tr) for key, value in kwargs.items()}))


def _call_rule(tr: Tracer, fn: Any, found: Rule, args: Args, kwargs: Kwargs) -> Value:
    try:
        signature(found).bind(tr, *args, **kwargs)
    except TypeError:
        return _fold_odd_call(tr, fn, args, kwargs)
    return found(tr, *args, **kwargs)


@functools.cache
def signature(fn: Rule) -> inspect.Signature:
    return inspect.signature(fn)


def _fold_odd_call(tr: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """A call that its rule was not written for: fold it, or make it for real (it may well raise)."""
    try:
        return tr.fold(fn, *args, **kwargs)
    except NotConstant:
        raise unsupported_call(f"{function_name(fn)}()", "is in a form that cannot be traced") from None


# ---- what may be folded when all arguments are constants ----

_PURE_TYPES = (
    str, bytes, int, float, complex, bool, tuple, frozenset, range, slice, list, dict, type(None), *UNCHANGING,
)  # fmt: skip
_PURE_MODULES = frozenset({"math", "cmath", "operator", "_operator", "builtins", "string", "keyword"})
_IMPURE = frozenset(
    {print, input, open, eval, exec, compile, id, hash, globals, locals, vars, dir, breakpoint, __import__}
)


def is_pure(fn: Any) -> bool:
    """Whether calling with constants has no effect and always the same result."""
    if isinstance(fn, types.BuiltinMethodType):
        owner = fn.__self__
        if owner is None and fn.__module__ is None:  # `str.maketrans`
            return any(fn.__qualname__.startswith(f"{kind.__name__}.") for kind in _PURE_TYPES)
        if isinstance(owner, types.ModuleType) or owner is None:
            return _pure_module(fn)
        if isinstance(owner, type):
            return owner in _PURE_TYPES
        is_known = type(owner) is frozenset and is_constant(owner)  # `keyword.iskeyword`
        return is_known or type(owner) in _PURE_TYPES or is_numpy_number(owner)
    if isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return fn.__objclass__ in _PURE_TYPES
    if isinstance(fn, types.MethodWrapperType):
        return type(fn.__self__) in _PURE_TYPES
    if isinstance(fn, type):
        return fn in _PURE_TYPES
    return _pure_module(fn)


def _pure_module(fn: Any) -> bool:
    return is_safe_to_hash(fn) and getattr(fn, "__module__", None) in _PURE_MODULES and fn not in _IMPURE


def class_object(value: Value) -> Any:
    """The class that a value stands for. Raises Break if it stands for none."""
    from .classes import ClassValue

    if isinstance(value, ClassValue):
        return value.cls
    if isinstance(value, ConstantValue) and value.value is None:
        return type(None)
    if isinstance(value, CallableValue):
        return value.fn
    raise value.cannot("using as a class")
