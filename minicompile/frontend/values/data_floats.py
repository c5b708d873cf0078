"""Floats that are read from tensors, as part of a graph: `loss.item()`, `x * (scale.item() * 0.5)`.

In: a float that a node of the graph gives; Python operations on it. Out: a node for each operation, which runs as it
stands on Python's own numbers, and a symbol for its result that nothing else is known about: arithmetic on symbols
would join operations, and round otherwise than the program does. What is a whole number (`int(t.item())`) is an int
that depends on data; a comparison is a condition that can be stated, not branched on.

Symbols know no NaN and no infinity, so that each is finite is a fact that the graph checks.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from ...shape_env import take_fresh_symbols
from ..breaks import FACTS_HINT, Break, BreakKind
from .base import Value
from .computed import ComputedValue
from .constant import ConstantValue, OpenValue, SymIntValue

if TYPE_CHECKING:
    from torch import fx

    from ..glue import Glue
    from ..tracer import Tracer

_ARITHMETIC = {
    getattr(operator, prefix + name): getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    for prefix in ("", "i")
}
_COMPARISONS = frozenset({operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne})
_WHOLE = frozenset({int, round, math.trunc, math.floor, math.ceil})
"""With one argument, these make an int of a float."""


class DataFloatValue(OpenValue):
    """A float that depends on data. `node` gives it, `sym` is its symbol."""

    def __init__(self, node: fx.Node, sym: torch.SymFloat) -> None:
        self.node = node
        self.sym = sym

    def python_type(self) -> type:
        return float

    def truth(self, tr: Tracer) -> bool:
        raise Break(BreakKind.BRANCH, "A branch depends on a number that depends on data.", FACTS_HINT)

    def specialize(self, tr: Tracer) -> Any:
        raise Break(BreakKind.VALUE, "The value of a number that depends on data is needed.", FACTS_HINT)

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if other is self and op in (operator.neg, operator.pos):
            return applied(tr, op, [self])
        return data_arithmetic(tr, op, *((other, self) if swapped else (self, other)))

    def getattr(self, tr: Tracer, name: str) -> Value:
        return self if name == "real" else ConstantValue(self.specialize(tr)).getattr(tr, name)

    def build(self, glue: Glue) -> str:
        return glue.size(self.sym)


def depends_on_data(value: Value) -> bool:
    """Whether a value is a number that depends on data."""
    return isinstance(value, DataFloatValue) or (isinstance(value, SymIntValue) and value.sym.node.hint is None)


def data_arithmetic(tr: Tracer, op: Any, left: Value, right: Value) -> Value | None:
    """`left op right`, numbers of which one depends on data, and whose result is a float or a condition; None for what
    are no numbers, or may give another kind of number."""
    if not _is_number(left) or not _is_number(right):
        return None
    if op in _COMPARISONS:
        return tr.number(op(*(tr.graph._operand(tr, value)[1] for value in (left, right))))
    plain = _ARITHMETIC.get(op)
    if plain is None or (plain is operator.pow and not _is_real_power(tr, left, right)):
        return None
    return applied(tr, plain, [left, right])


def call_data_float(tr: Tracer, fn: Any, args: list[Value]) -> Value | None:
    """`math.sqrt`, `abs`, `int` and the like of numbers of which one depends on data, if that makes a float, or an int
    of a float; else None."""
    args = [arg.realize(tr) for arg in args]
    if not any(map(depends_on_data, args)) or not all(map(_is_number, args)):
        return None
    if fn is float and isinstance(args[0], DataFloatValue):
        return args[0]
    is_maths = getattr(fn, "__module__", "") == "math" and fn not in _NOT_FLOATS
    are_floats = all(map(_is_float, args))
    if is_maths or fn is float or ((fn in _WHOLE or fn in (abs, operator.abs)) and _is_float(args[0])):
        return applied(tr, fn, args)
    return applied(tr, fn, args) if fn in (max, min) and are_floats else None


_NOT_FLOATS = frozenset(
    {
        math.isnan, math.isinf, math.isfinite, math.isclose, math.frexp, math.modf, math.gcd, math.lcm, math.comb,
        math.perm, math.isqrt, math.factorial,
    }
)  # fmt: skip


def applied(tr: Tracer, fn: Any, operands: list[Value]) -> Value:
    """`fn(*operands)`, as a node of the graph."""
    from ..data_dependent import check_place, note_number, state

    graph = tr.graph
    assert graph.shapes is not None
    check_place(tr)
    tr.changed()
    nodes = tuple(graph._operand(tr, value)[0] for value in operands)
    node = graph._emit("call_function", fn, nodes, {}, tr.origin(fn))
    env = graph.shapes.env
    is_whole = fn in _WHOLE and len(operands) == 1
    if is_whole and isinstance(operands[0], DataFloatValue):
        state(tr, abs(operands[0].sym) < 2.0**63)
    symbol = env.create_unbacked_symint() if is_whole else env.create_unbacked_symfloat()
    take_fresh_symbols(env)
    return note_number(tr, node, symbol)


def _is_real_power(tr: Tracer, base: Value, exponent: Value) -> bool:
    """Whether a power is a float: of something negative, to an exponent that is no whole number, it is none."""
    from ..data_dependent import state

    if not _is_float(base) and not _is_float(exponent):
        return False  # an int, or a float if the exponent is negative
    if isinstance(exponent, SymIntValue):
        return True
    if isinstance(exponent, ConstantValue) and float(exponent.value).is_integer():
        return True
    if isinstance(base, ConstantValue):
        return bool(base.value >= 0)
    state(tr, tr.graph._operand(tr, base)[1] >= 0)
    return True


def _is_number(value: Value) -> bool:
    if isinstance(value, ConstantValue):
        return type(value.value) in (bool, int, float)
    return isinstance(value, (DataFloatValue, SymIntValue)) or (
        isinstance(value, ComputedValue) and isinstance(value.now, float)
    )


def _is_float(value: Value) -> bool:
    return isinstance(value, DataFloatValue) or (isinstance(value, ConstantValue) and type(value.value) is float)
