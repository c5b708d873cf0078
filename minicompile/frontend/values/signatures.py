"""`inspect.signature` of Python functions and methods.

In: a function's value. Out: its signature's value: names, kinds and defaults of the parameters are those of the code
and the function that calling it would bind, so nothing is guarded that a call of it does not guard.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..breaks import unsupported_call
from ..sources import AttrSource, ItemSource
from .base import Args, BoundMethod, Kwargs, Lazy, Value, fail
from .callables import rule
from .constant import ConstantValue
from .containers import DictValue, SequenceValue
from .functions import FunctionValue, MethodValue
from .proxies import ProxyValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..sources import Source
    from ..tracer import Tracer

_KINDS = inspect.Parameter


class SignatureValue(Value):
    """What `inspect.signature(of)` gives. `parameters` by name."""

    def __init__(self, of: Value, parameters: list[ParameterValue], source: Source | None = None) -> None:
        self.of = of
        self.source = source
        self.parameters = ProxyValue(DictValue(dict, {each.name: each for each in parameters}))
        for each in parameters:
            each.signature = self

    def python_type(self) -> type:
        return inspect.Signature

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in ("bind", "bind_partial"):
            return _BindMethod(self, name)
        return self.parameters if name == "parameters" else super().getattr(tr, name)

    def real(self) -> inspect.Signature:
        """One with the same names, kinds and places of defaults."""
        known: Any = self.parameters.contents.entries.values()
        defaults = [inspect.Parameter.empty if each.default is None else None for each in known]
        given = zip(known, defaults, strict=True)
        return inspect.Signature([inspect.Parameter(each.name, each.kind, default=value) for each, value in given])

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(inspect.signature)}({glue.ref(self.of)})"


class ParameterValue(Value):
    """One parameter. `default` is None where it has none."""

    signature: SignatureValue

    def __init__(self, name: str, kind: Any, default: Value | None) -> None:
        self.name = name
        self.kind = kind
        self.default = default

    def python_type(self) -> type:
        return inspect.Parameter

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name == "default":
            return self.default or tr.constant(inspect.Parameter.empty)
        if name in ("name", "kind"):
            return ConstantValue(getattr(self, name))
        is_constant = name in ("empty", "POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY",
                               "VAR_KEYWORD")  # fmt: skip
        return tr.constant(getattr(inspect.Parameter, name)) if is_constant else super().getattr(tr, name)

    def build(self, glue: Glue) -> str:
        return f"{glue.ref(self.signature)}.parameters[{self.name!r}]"


class _BindMethod(BoundMethod):
    """`bind` or `bind_partial`, of a signature."""

    owner: SignatureValue

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        try:
            bound = getattr(self.owner.real(), self.name)(*args, **kwargs)
        except TypeError as error:
            fail(error, is_exact=True)
        tr.changed()
        return BoundArgumentsValue(self.owner, {name: _value_of(part) for name, part in bound.arguments.items()})


def _value_of(part: Any) -> Value:
    """What is bound to a parameter, which for the last ones is several values."""
    if isinstance(part, tuple):
        return SequenceValue(tuple, list(part))
    return DictValue(dict, dict(part)) if isinstance(part, dict) else part  # type: ignore[no-any-return]


class BoundArgumentsValue(Value):
    """What `bind` gives."""

    def __init__(self, signature: SignatureValue, arguments: dict[str, Value]) -> None:
        self.signature = signature
        self.arguments = DictValue(dict, arguments)  # type: ignore[arg-type]

    def python_type(self) -> type:
        return inspect.BoundArguments

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        if name in ("arguments", "signature"):
            return getattr(self, name)  # type: ignore[no-any-return]
        if name == "apply_defaults":
            return _ApplyDefaults(self, name)
        if name == "args":
            return SequenceValue(tuple, list(self._real(tr).args))
        return DictValue(dict, dict(self._real(tr).kwargs)) if name == "kwargs" else super().getattr(tr, name)

    def _real(self, tr: Tracer) -> inspect.BoundArguments:
        """One that holds values."""
        kinds = {each.name: each.kind for each in self.signature.parameters.contents.entries.values()}  # type: ignore[attr-defined]
        given: Any = {}
        for name, value in self.arguments.entries.items():
            given[name] = value
            if kinds[name] is _KINDS.VAR_POSITIONAL:
                given[name] = value.realize(tr).items(tr)
            elif kinds[name] is _KINDS.VAR_KEYWORD:
                given[name] = dict(value.realize(tr).entries)  # type: ignore[attr-defined]
        return inspect.BoundArguments(self.signature.real(), given)

    def apply_defaults(self, tr: Tracer) -> None:
        """Put the parameters' defaults where nothing is bound, in their order."""
        nothing: tuple[Value, Value] = (SequenceValue(tuple, []), DictValue(dict, {}))
        empty = dict(zip((_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD), nothing, strict=True))
        found: Any = {}
        for name, each in self.signature.parameters.contents.entries.items():
            value = self.arguments.entries.get(name) or each.default or empty.get(each.kind)  # type: ignore[attr-defined]
            if value is not None:
                found[name] = value
        self.arguments = DictValue(dict, found)
        tr.changed()

    def build(self, glue: Glue) -> str:
        return f"{glue.keep(inspect.BoundArguments)}({glue.ref(self.signature)}, {glue.ref(self.arguments)})"


class _ApplyDefaults(BoundMethod):
    """`apply_defaults`, of bound arguments."""

    owner: BoundArgumentsValue

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        self.owner.apply_defaults(tr)
        return ConstantValue(None)


def outside_signature(tr: Tracer, obj: inspect.Signature, source: Source) -> Value:
    """A signature that existed before; none changes."""
    tr.guard_identity(source, obj)
    parts = AttrSource(source, "parameters")
    parameters = []
    for name, each in obj.parameters.items():
        default = Lazy(each.default, AttrSource(ItemSource(parts, name), "default"))
        parameters.append(ParameterValue(name, each.kind, None if each.default is each.empty else default))
    return SignatureValue(ConstantValue(None), parameters, source)


def _parameters(fn: FunctionValue) -> list[ParameterValue]:
    """The parameters of a function without `__wrapped__` and `__signature__`, in order."""
    code, count = fn.code, fn.code.co_argcount
    names = code.co_varnames
    defaults = dict(zip(reversed(names[:count]), reversed(fn.defaults), strict=False))
    result = [
        ParameterValue(
            name, _KINDS.POSITIONAL_ONLY if index < code.co_posonlyargcount else _KINDS.POSITIONAL_OR_KEYWORD,
            defaults.get(name),
        )
        for index, name in enumerate(names[:count])
    ]  # fmt: skip
    rest = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        result.append(ParameterValue(names[rest], _KINDS.VAR_POSITIONAL, None))
        rest += 1
    for name in names[count : count + code.co_kwonlyargcount]:
        result.append(ParameterValue(name, _KINDS.KEYWORD_ONLY, fn.kwdefaults.get(name)))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        result.append(ParameterValue(names[rest], _KINDS.VAR_KEYWORD, None))
    return result


@rule(inspect.signature)
def _signature(tr: Tracer, of: Value) -> Value:
    of = of.realize(tr)
    function = of.function.realize(tr) if isinstance(of, MethodValue) else of
    while isinstance(function, FunctionValue) and not _says_itself(tr, function):
        if not function.has_attr(tr, "__wrapped__"):
            break
        function = function.getattr(tr, "__wrapped__").realize(tr)
    if not isinstance(function, FunctionValue) or _says_itself(tr, function):
        raise unsupported_call("inspect.signature()", "is of something other than an ordinary Python function")
    parameters = _parameters(function)
    return SignatureValue(of, _without_self(parameters) if isinstance(of, MethodValue) else parameters)


def _says_itself(tr: Tracer, function: FunctionValue) -> bool:
    """Whether the function carries a signature that is not that of its code."""
    return any(function.has_attr(tr, name) for name in ("__signature__", "__text_signature__", "_partialmethod"))


def _without_self(parameters: list[ParameterValue]) -> list[ParameterValue]:
    """What is left for the callers of a bound method."""
    if not parameters or parameters[0].kind in (_KINDS.KEYWORD_ONLY, _KINDS.VAR_KEYWORD):
        fail(ValueError("invalid method signature"), is_exact=True)
    return parameters if parameters[0].kind is _KINDS.VAR_POSITIONAL else parameters[1:]


__all__ = ["SignatureValue"]
