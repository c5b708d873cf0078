"""`inspect.signature` of Python functions and methods.

In: a function's value. Out: its signature's value: names, kinds and defaults of the parameters are those of the code
and the function that calling it would bind, so nothing is guarded that a call of it does not guard.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..breaks import unsupported_call
from .base import Value, fail
from .callables import rule
from .constant import ConstantValue
from .containers import DictValue
from .functions import FunctionValue, MethodValue
from .proxies import ProxyValue

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_KINDS = inspect.Parameter


class SignatureValue(Value):
    """What `inspect.signature(of)` gives. `parameters` by name."""

    def __init__(self, of: Value, parameters: list[ParameterValue]) -> None:
        self.of = of
        self.parameters = ProxyValue(DictValue(dict, {each.name: each for each in parameters}))
        for each in parameters:
            each.signature = self

    def python_type(self) -> type:
        return inspect.Signature

    def truth(self, tr: Tracer) -> bool:
        return True

    def getattr(self, tr: Tracer, name: str) -> Value:
        return self.parameters if name == "parameters" else super().getattr(tr, name)

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
