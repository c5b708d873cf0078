"""The functions of the `operator` module on values that are no constants.

In: values. Out: what the operator that the function is named after gives; registered with `@rule` (see callables).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .. import operators, polyfills
from .base import Value, fail
from .callables import RULES, Rule, rule
from .constant import ConstantValue, OpenValue

if TYPE_CHECKING:
    from ..tracer import Tracer


def _binary(op: Any) -> Rule:
    def trace(tr: Tracer, left: Value, right: Value) -> Value:
        return operators.binary(tr, op, left.realize(tr), right.realize(tr))

    return trace


def _unary(op: Any) -> Rule:
    def trace(tr: Tracer, value: Value) -> Value:
        return operators.unary(tr, op, value.realize(tr))

    return trace


def _in_python(polyfill: Any) -> Rule:
    def trace(tr: Tracer, *args: Value, **kwargs: Value) -> Value:
        return tr.constant(polyfill).call(tr, list(args), kwargs)

    return trace


RULES.update({op: _binary(op) for op in operators.BY_SYMBOL.values()})
RULES.update({op: _unary(op) for op in operators.UNARY.values()})
for _name in ("contains", "countOf", "delitem", "concat", "iconcat", "indexOf", "call"):
    RULES[getattr(operator, _name)] = _in_python(getattr(polyfills, _name))


@rule(operator.getitem)
def _getitem(tr: Tracer, owner: Value, key: Value) -> Value:
    return owner.realize(tr).getitem(tr, key.realize(tr))


@rule(operator.setitem)
def _setitem(tr: Tracer, owner: Value, key: Value, value: Value) -> Value:
    owner.realize(tr).setitem(tr, key.realize(tr), value)
    return ConstantValue(None)


@rule(operator.not_)
def _not(tr: Tracer, value: Value) -> Value:
    return ConstantValue(not value.realize(tr).truth(tr))


@rule(operator.truth)
def _truth(tr: Tracer, value: Value) -> Value:
    return ConstantValue(value.realize(tr).truth(tr))


@rule(operator.is_)
def _is(tr: Tracer, left: Value, right: Value) -> Value:
    return ConstantValue(operators.same(tr, left, right))


@rule(operator.is_not)
def _is_not(tr: Tracer, left: Value, right: Value) -> Value:
    return ConstantValue(not operators.same(tr, left, right))


@rule(operator.index)
def _index(tr: Tracer, value: Value) -> Value:
    number = value.realize(tr).as_index(tr)
    if not isinstance(number, (ConstantValue, OpenValue)):
        raise number.cannot("making an int")
    if not issubclass(number.python_type(), int):
        fail(TypeError(f"'{number.python_type().__name__}' object cannot be interpreted as an integer"), is_exact=True)
    return number
