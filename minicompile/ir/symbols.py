"""Dimensions: plain ints, or sympy expressions over size symbols.

In: ints and `torch.SymInt`s as tracing produces them.
Out: `Dim`s (int or sympy.Expr), their product, comparison, and their text in Python and C++.

Everything takes the int path first and imports sympy only when a size really is symbolic: importing it costs 0.3 s,
which a static compilation must not pay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..shape_env import data_facts


def to_dim(value: Any) -> Any:
    """An int for an int or a constant SymInt, a float for a constant SymFloat (a scalar operand, never a size), else
    the sympy expression (replacements applied)."""
    if type(value) is int:
        return value
    node = getattr(value, "node", None)
    if node is None:
        return value if hasattr(value, "free_symbols") else int(value)
    expr = node.expr
    if not is_size_of_input(expr) and not expr.is_number:
        expr = _replaced(expr, _equalities(node.shape_env))
    if not expr.is_number:
        return expr
    return float(expr) if node.pytype is float else int(expr)


def _equalities(env: Any) -> dict[Any, Any]:
    """Expressions that a guard of the trace has found equal → the one of them that stands for all.

    Torch itself replaces the size of an input that equals something. Two sums that are equal (`cat` of two parts plus
    `cat` of two others) it leaves as they are. Everything behind tracing compares sizes by structure.
    """
    known: dict[Any, Any]
    count, known = getattr(env, "_minicompile_equalities", (0, {}))
    if count != (len(env.guards), env.num_deferred_runtime_asserts):
        known = {}
        for fact in (*(guard.expr for guard in env.guards), *data_facts(env)):
            if type(fact).__name__ == "Equality":
                sides = (_replaced(env.replace(side), known) for side in fact.args)
                kept, other = sorted(sides, key=lambda side: (not side.is_number, side.count_ops(), str(side)))
                if kept != other and not is_size_of_input(other):
                    joined = {expr: stand_in.xreplace({other: kept}) for expr, stand_in in known.items()}
                    known = {**joined, other: kept}
        env._minicompile_equalities = ((len(env.guards), env.num_deferred_runtime_asserts), known)
    return known


def _replaced(expr: Any, known: dict[Any, Any]) -> Any:
    """Until nothing is left to replace: what one equality makes of an expression can be a side of another."""
    for _ in known:
        before, expr = expr, expr.xreplace(known)
        if expr == before:
            break
    return expr


def to_dims(values: Any) -> tuple[Any, ...]:
    """`to_dim` over a shape or stride sequence."""
    return tuple(map(to_dim, values))


def is_float_symbol(name: str) -> bool:
    """Whether a symbol stands for a Python float, from outside or read from a tensor. (The prefixes are torch's.)"""
    return name.startswith(("zf", "zuf"))


def is_size_of_input(dim: Any) -> bool:
    """Whether a dimension is a symbol for a number from outside, alone. (What depends on data has torch's prefix u.)"""
    return not isinstance(dim, int) and dim.is_Symbol and dim.name.startswith("s")


def max_dim(left: Any, right: Any) -> Any:
    """The larger of two dimensions."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    from torch.utils._sympy.functions import Max

    return Max(left, right)


def is_static(dim: Any) -> bool:
    """Whether a Dim is a number, whatever the symbols stand for."""
    return isinstance(dim, int) or dim.is_number


def same_dim(left: Any, right: Any) -> bool:
    """Structural equality; symbolic expressions that are only equal by a guard do not count."""
    return bool(left == right)


def quotient(dim: Any, divisor: int) -> Any:
    """`dim // divisor`, as torch writes it where it is symbolic: sympy's own floor is no expression of sizes."""
    if is_static(dim):
        return dim // divisor
    from torch.utils._sympy.functions import FloorDiv

    return FloorDiv(dim, divisor)


def exact_quotient(dim: Any, divisor: int) -> Any:
    """`dim / divisor`, or None where it is not known that nothing is left over."""
    if isinstance(dim, int):
        return dim // divisor if dim % divisor == 0 else None
    return dim / divisor if dim % divisor == 0 else None


def dims_product(dims: Any) -> Any:
    """How many elements a shape has; 1 for none."""
    result: Any = 1
    for dim in dims:
        result = result * dim
    return result


def free_symbols(dim: Any) -> set[str]:
    """Names of the size symbols in a dimension."""
    return set() if isinstance(dim, (int, float)) else {symbol.name for symbol in dim.free_symbols}


def evaluate(dim: Any, values: dict[str, int]) -> int:
    """The dimension's value when each symbol has the given one. Raises KeyError for a symbol without a value."""
    return dim if isinstance(dim, int) else int(_substitute(dim, values))


UNSEEN = 128
"""What is taken for a size of which no value was seen."""


def hint(dim: Any, hints: Mapping[str, int]) -> int:
    """The size as it was seen while tracing, for heuristics. `hints`: a value for each symbol."""
    return dim if isinstance(dim, int) else evaluate(dim, {name: hints.get(name, UNSEEN) for name in free_symbols(dim)})


def evaluate_scalar(value: Any, values: Mapping[str, int | float]) -> int | float | bool:
    """A Python scalar, or an expression over size symbols that may be fractional, as a number."""
    if isinstance(value, (bool, int, float)):
        return value
    if value.is_Symbol:
        return values[value.name]
    result = _substitute(value, values)
    return int(result) if result.is_integer else float(result)


def _substitute(expr: Any, values: Mapping[str, int | float]) -> Any:
    from sympy import sympify

    return expr.subs({symbol: sympify(values[symbol.name]) for symbol in expr.free_symbols})


def dims_text(dims: Any) -> str:
    """Dims as Python source, separated by commas."""
    return ", ".join(dim_text(dim) for dim in dims)


def dim_text(dim: Any, target: str = "python") -> str:
    """The dimension as source text.

    Args:
        dim: int or sympy expression; fractional ones, which only occur as scalars, become floating expressions.
        target: `"python"` (floor division is `//`; needs `math`), `"triton"` (the same, fractions in float64), or
            `"cpp"` (helpers `mc_floordiv`, `mc_mod`, `mc_max`, `mc_min` on int64; builtins of gcc and clang on double).
    Raises:
        NotImplementedError: an expression kind that no printer rule knows; callers fall back to an extern call.
    """
    if isinstance(dim, int):
        return str(dim)
    return _print(dim, target)


_PYTHON = {
    "FloorDiv": "({0} // {1})",
    "CleanDiv": "({0} // {1})",
    "Mod": "({0} % {1})",
    "PythonMod": "({0} % {1})",
    "ModularIndexing": "({0} // {1} % {2})",
    "Max": "max({0}, {1})",
    "Min": "min({0}, {1})",
    "Abs": "max({0}, -({0}))",
    "IntTrueDiv": "({0} / {1})",
    "FloatTrueDiv": "({0} / {1})",
    "ToFloat": "float({0})",
    "OpaqueUnaryFn_sqrt": "math.sqrt({0})",
    "FloatPow": "({0} ** {1})",
    "PowByNatural": "({0} ** {1})",
    "CeilToInt": "math.ceil({0})",
    "FloorToInt": "math.floor({0})",
    "TruncToInt": "math.trunc({0})",
    "RoundToInt": "round({0})",
    "Equality": "({0} == {1})",
    "Unequality": "({0} != {1})",
    "StrictLessThan": "({0} < {1})",
    "LessThan": "({0} <= {1})",
    "StrictGreaterThan": "({0} > {1})",
    "GreaterThan": "({0} >= {1})",
    "And": "({0} and {1})",
    "Or": "({0} or {1})",
    "Not": "(not {0})",
}
_CPP = {
    "FloorDiv": "mc_floordiv({0}, {1})",
    "CleanDiv": "mc_floordiv({0}, {1})",
    "Mod": "mc_mod({0}, {1})",
    "PythonMod": "mc_mod({0}, {1})",
    "ModularIndexing": "mc_mod(mc_floordiv({0}, {1}), {2})",
    "Max": "mc_max({0}, {1})",
    "Min": "mc_min({0}, {1})",
    "Abs": "mc_max({0}, -({0}))",
    "IntTrueDiv": "((double){0} / (double){1})",
    "FloatTrueDiv": "((double){0} / (double){1})",
    "ToFloat": "(double)({0})",
    "OpaqueUnaryFn_sqrt": "__builtin_sqrt((double){0})",
    "FloatPow": "__builtin_pow((double){0}, (double){1})",
    "CeilToInt": "(int64_t)__builtin_ceil({0})",
    "FloorToInt": "(int64_t)__builtin_floor({0})",
    "TruncToInt": "(int64_t){0}",
    "RoundToInt": "(int64_t)__builtin_nearbyint({0})",
}
_TRITON = {kind: text for kind, text in _PYTHON.items() if not re.search(r"math\.|\*\*|round", text)} | {
    "IntTrueDiv": "(tl.cast({0}, tl.float64) / {1})",  # `/` of two ints would be float32
    "ToFloat": "tl.cast({0}, tl.float64)",
}
_TEXTS = {"python": _PYTHON, "cpp": _CPP, "triton": _TRITON}
"""Kind of expression → its text per target. Max, Min, And and Or of several arguments nest."""


def _print(expr: Any, target: str) -> str:
    if expr.is_Integer:
        return str(int(expr))
    if expr.is_Number:
        return repr(float(expr))
    if expr.is_Symbol:
        return str(expr.name)
    args = [_print(arg, target) for arg in expr.args]
    kind = type(expr).__name__
    if kind in ("Add", "Mul"):
        return "(" + (" + " if kind == "Add" else "*").join(args) + ")"
    if kind == "Pow":
        return _power(expr, args, target)
    text = _TEXTS[target].get(kind)
    if text is None:
        raise NotImplementedError(f"size expression {expr} has a {kind}, which has no {target} text")
    while kind in ("Max", "Min", "And", "Or") and len(args) > 2:
        args = [text.format(*args[:2]), *args[2:]]
    return text.format(*args)


def _power(expr: Any, args: list[str], target: str) -> str:
    """Small positive powers are products; roots and inverses are floating."""
    exponent = expr.args[1]
    if exponent.is_Integer and int(exponent) > 0:
        return "(" + "*".join([args[0]] * int(exponent)) + ")"
    if exponent.is_Integer:
        one = "1.0" if target == "cpp" else "1"
        return f"({one} / ({'*'.join([args[0]] * -int(exponent))}))"
    return _TEXTS[target]["FloatPow"].format(*args)
