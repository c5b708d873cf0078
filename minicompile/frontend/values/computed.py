"""Numbers and texts that only the call knows, and that are Python's business: a learning rate that varies, `lr * 0.5`,
`1 / n` of a symbolic size, `f"step {n}"`.

In: an open float from outside, or a Python operation on open numbers. Out: a value whose source is the very expression:
the entry computes it as the user's code does, bit for bit, before the graph runs. Where a tensor meets such a float, it
enters the graph as an input of its own. What a branch decides on becomes a guard on the expression (`lr * 0.5 > 1.0`);
what needs the number itself fixes it, which a guard says too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...guards.kinds import ConstantGuard
from ...guards.sizes import SizeGuard
from ..breaks import BreakKind
from ..computed_sources import ComputedSource
from ..draws import is_drawn, needed
from ..sources import Source, namespaced
from .base import Value
from .constant import ConstantValue, OpenValue, SymIntValue, specialized

if TYPE_CHECKING:
    from ..glue import Glue
    from ..tracer import Tracer

_SYMBOLS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.iadd: "+", operator.isub: "-", operator.imul: "*",
    operator.itruediv: "/", operator.ifloordiv: "//", operator.imod: "%", operator.ipow: "**",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
_ROUNDED: dict[Any, Callable[[Any], Any]] = {
    int: torch.sym_int, math.trunc: torch.sym_int, math.floor: math.floor, math.ceil: math.ceil, round: round,
}  # fmt: skip
"""What makes a size of a fraction of sizes, and how it is said of symbols."""


class ComputedValue(OpenValue):
    """A float or str that the entry computes; `now` is what it is in the call that is traced, `source` how to get it.

    `sym` is the same as arithmetic on symbols, for one operation on sizes: `int(n * 0.5)` is a size again.
    """

    def __init__(self, source: Source, now: Any, sym: torch.SymFloat | None = None) -> None:
        self.source: Source = source
        self.now = now
        self.sym = sym

    def python_type(self) -> type:
        return type(self.now)

    def specialize(self, tr: Tracer) -> Any:
        if is_drawn(self.source):
            raise needed()
        tr.changed()
        tr.guard(ConstantGuard(self.source, self.now))
        return self.now

    def truth(self, tr: Tracer) -> bool:
        return _decided(tr, "bool({0})", [self], bool(self.now))

    def binary(self, tr: Tracer, op: Any, other: Value, swapped: bool) -> Value | None:
        if other is self and op in _UNARY:
            return computed(tr, op, _UNARY[op], [self])
        return arithmetic(tr, op, other, self) if swapped else arithmetic(tr, op, self, other)

    def getattr(self, tr: Tracer, name: str) -> Value:
        return ConstantValue(self.specialize(tr)).getattr(tr, name)

    def length(self, tr: Tracer) -> int:
        return ConstantValue(self.specialize(tr)).length(tr)

    def getitem(self, tr: Tracer, key: Value) -> Value:
        return ConstantValue(self.specialize(tr)).getitem(tr, key)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return ConstantValue(self.specialize(tr)).contains(tr, item)

    def items(self, tr: Tracer) -> list[Value]:
        return ConstantValue(self.specialize(tr)).items(tr)

    def text(self, tr: Tracer, how: str) -> Value | None:
        return None if isinstance(self.now, str) else computed(tr, str, "str({0})", [self])

    def build(self, glue: Glue) -> str:
        return glue.source(self.source)


_UNARY: dict[Any, str] = {operator.neg: "-{0}", operator.pos: "+{0}"}


def arithmetic(tr: Tracer, op: Any, left: Value, right: Value) -> Value | None:
    """`left op right`, one of which is open; None if they are not both numbers, or both texts that are joined."""
    symbol = _SYMBOLS.get(op)
    texts = [_is_text(left), _is_text(right)]
    if symbol is None or not (all(texts) and symbol == "+" or is_number(left) and is_number(right)):
        return None
    return computed(tr, op, f"{{0}} {symbol} {{1}}", [left, right])


def computed(tr: Tracer, fn: Callable[..., Any], template: str, operands: list[Value]) -> Value:
    """`fn(*operands)`, whose text is `template`; at least one operand is open. Floats and texts stay open, anything
    else (the result of a comparison, an int) is decided now. Errors are the user's, for these very numbers."""
    try:
        now = fn(*map(now_of, operands))
    except Exception:  # the program's: it is raised again, for numbers that are guarded
        return tr.fold(fn, *(specialized(tr, value) for value in operands))
    source = source_over(tr, template, operands)
    if source is None:
        return tr.fold(fn, *(specialized(tr, value) for value in operands))
    if type(now) in (float, str):
        return ComputedValue(source, now, _symbolic(fn, operands) if type(now) is float else None)
    if type(now) is bool:
        return ConstantValue(_decided(tr, template, operands, now))
    whole = _whole(tr, fn, operands)
    if whole is not None:
        return whole
    return ConstantValue(ComputedValue(source, now).specialize(tr))


def call_computed(tr: Tracer, fn: Any, args: list[Value]) -> Value | None:
    """`math.sqrt(x)` and the like, `round(x, 2)`; None if no argument is open, or one is no number."""
    args = [arg.realize(tr) for arg in args]
    name = getattr(fn, "__name__", "")
    if not any(isinstance(arg, OpenValue) for arg in args) or not all(map(is_number, args)):
        return None
    if getattr(fn, "__module__", "") == "math":
        name = f"math.{name}"
    elif fn not in (int, float, abs, round):
        return None
    return computed(tr, fn, f"{name}({', '.join(f'{{{i}}}' for i in range(len(args)))})", args)


def formatted_number(tr: Tracer, value: OpenValue, spec: str) -> Value:
    """`format(value, spec)` of an open number."""
    if not spec:
        return computed(tr, str, "str({0})", [value])
    if namespaced(spec) != spec or "{" in spec:  # a word that templates give a meaning
        return tr.fold(format, specialized(tr, value), ConstantValue(spec))
    return computed(tr, lambda number: format(number, spec), f"format({{0}}, {spec!r})", [value])


def joined(tr: Tracer, parts: list[Value]) -> Value:
    """The parts of an f-string, one behind the other."""
    result: Value = ConstantValue("")
    for part in parts:
        if isinstance(result, ConstantValue) and isinstance(part, ConstantValue):
            result = tr.fold(operator.add, result, part)
        elif isinstance(result, ConstantValue) and result.value == "":
            result = part
        else:
            result = arithmetic(tr, operator.add, result, part) or tr.fold(operator.add, result, part)
    return result


# ---- operands ----


def is_number(value: Value) -> bool:
    """Whether it is a Python number that is known, or that the entry computes."""
    if isinstance(value, ConstantValue):
        return type(value.value) in (bool, int, float)
    return isinstance(value, SymIntValue) or (isinstance(value, ComputedValue) and isinstance(value.now, float))


def _is_text(value: Value) -> bool:
    if isinstance(value, ConstantValue):
        return type(value.value) is str
    return isinstance(value, ComputedValue) and isinstance(value.now, str)


def now_of(value: Value) -> Any:
    """The number or text that it is in the call that is traced."""
    if isinstance(value, ConstantValue):
        return value.value
    assert isinstance(value, (SymIntValue, ComputedValue))
    return value.now


def source_over(tr: Tracer, template: str, operands: list[Value]) -> ComputedSource | None:
    """The expression; None where a constant cannot stand in it as text."""
    terms: list[Source] = []
    texts = []
    for value in operands:
        text = _literal(value.value) if isinstance(value, ConstantValue) else _term(tr, value, terms)
        if text is None:
            return None
        texts.append(text)
    return ComputedSource(template.format(*texts), tuple(terms))


def _term(tr: Tracer, value: Value, terms: list[Source]) -> str | None:
    assert isinstance(value, (ComputedValue, SymIntValue))
    source = value.source if isinstance(value, ComputedValue) else tr.size_source(value)
    if source is None:
        return None
    if source not in terms:
        terms.append(source)
    return f"{{{terms.index(source)}}}"


def _literal(constant: Any) -> str | None:
    """The constant's text in a template; None for what has none."""
    if isinstance(constant, float) and not math.isfinite(constant):
        return None
    text = repr(constant)
    if isinstance(constant, str) and namespaced(text) != text:
        return None
    text = text.replace("{", "{{").replace("}", "}}")
    return f"({text})" if text.startswith("-") else text


def _symbolic(fn: Any, operands: list[Value]) -> torch.SymFloat | None:
    """One operation on symbolic sizes as torch's own symbolic arithmetic. Two in a row it may join into another one."""
    if any(isinstance(value, ComputedValue) for value in operands):
        return None
    fn = {math.sqrt: torch.sym_sqrt, float: torch.sym_float}.get(fn, fn)
    if getattr(fn, "__module__", None) == "math":  # it asks for the number
        return None
    try:
        result = fn(*(value.sym if isinstance(value, SymIntValue) else value.value for value in operands))  # type: ignore[attr-defined]
    except Exception:  # no arithmetic of symbols, or not for these
        return None
    return result if isinstance(result, torch.SymFloat) else None


def _whole(tr: Tracer, fn: Any, operands: list[Value]) -> Value | None:
    """`int(n * 0.5)`: a size again."""
    rounding = _ROUNDED.get(fn)
    value = operands[0]
    if rounding is None or len(operands) != 1 or not isinstance(value, ComputedValue) or value.sym is None:
        return None
    return tr.number(rounding(value.sym))


def _decided(tr: Tracer, template: str, operands: list[Value], now: bool) -> bool:
    """A condition, decided as it is now; a guard says so."""
    source = source_over(tr, template if now else f"not ({template})", operands)
    assert source is not None
    if is_drawn(source):
        raise needed(BreakKind.BRANCH)
    tr.changed()
    tr.guard(SizeGuard(source.template, source.terms, tr.here()))
    return now
