"""Dimensions: plain ints, or sympy expressions over size symbols.

In: ints and `torch.SymInt`s as tracing produces them.
Out: `Dim`s (int or sympy.Expr), their product, comparison, and their text in Python and C++.

Everything takes the int path first and imports sympy only when a size really is symbolic: importing it costs 0.3 s,
which a static compilation must not pay.
"""

from __future__ import annotations

from typing import Any


def to_dim(value: Any) -> Any:
    """An int for an int or a constant SymInt, else the SymInt's sympy expression (replacements applied)."""
    if type(value) is int:
        return value
    node = getattr(value, "node", None)
    if node is None:
        return value if hasattr(value, "free_symbols") else int(value)
    expr = node.expr
    return int(expr) if expr.is_number else expr


def to_dims(values: Any) -> tuple[Any, ...]:
    """`to_dim` over a shape or stride sequence."""
    return tuple(map(to_dim, values))


def is_static(dim: Any) -> bool:
    return isinstance(dim, int) or dim.is_number


def same_dim(left: Any, right: Any) -> bool:
    """Structural equality; symbolic expressions that are only equal by a guard do not count."""
    return bool(left == right)


def dims_product(dims: Any) -> Any:
    result: Any = 1
    for dim in dims:
        result = result * dim
    return result


def free_symbols(dim: Any) -> set[str]:
    """Names of the size symbols in a dimension."""
    return set() if isinstance(dim, int) else {symbol.name for symbol in dim.free_symbols}


def evaluate(dim: Any, values: dict[str, int]) -> int:
    """The dimension's value when each symbol has the given one. Raises KeyError for a symbol without a value."""
    if isinstance(dim, int):
        return dim
    return int(dim.subs({symbol: values[symbol.name] for symbol in dim.free_symbols}))


def dims_text(dims: Any) -> str:
    return ", ".join(dim_text(dim) for dim in dims)


def dim_text(dim: Any, target: str = "python") -> str:
    """The dimension as source text.

    Args:
        dim: int or sympy expression.
        target: `"python"` (floor division is `//`) or `"cpp"` (helpers `mc_floordiv`, `mc_mod` on int64).
    Raises:
        NotImplementedError: an expression kind that no printer rule knows; callers fall back to an extern call.
    """
    if isinstance(dim, int):
        return str(dim)
    return _print(dim, target)


def _print(expr: Any, target: str) -> str:
    if expr.is_Integer:
        return str(int(expr))
    if expr.is_Symbol:
        return str(expr.name)
    args = [_print(arg, target) for arg in expr.args]
    kind = type(expr).__name__
    if kind == "Add":
        return "(" + " + ".join(args) + ")"
    if kind == "Mul":
        return "(" + "*".join(args) + ")"
    if kind == "Pow" and expr.args[1].is_Integer and int(expr.args[1]) > 0:
        return "(" + "*".join([args[0]] * int(expr.args[1])) + ")"
    if kind in ("FloorDiv", "CleanDiv"):
        return f"({args[0]} // {args[1]})" if target == "python" else f"mc_floordiv({args[0]}, {args[1]})"
    if kind in ("Mod", "PythonMod"):
        return f"({args[0]} % {args[1]})" if target == "python" else f"mc_mod({args[0]}, {args[1]})"
    if kind == "ModularIndexing":
        base = f"({args[0]} // {args[1]})" if target == "python" else f"mc_floordiv({args[0]}, {args[1]})"
        return f"({base} % {args[2]})" if target == "python" else f"mc_mod({base}, {args[2]})"
    if kind in ("Max", "Min"):
        name = kind.lower() if target == "python" else f"mc_{kind.lower()}"
        text = args[0]
        for arg in args[1:]:
            text = f"{name}({text}, {arg})"
        return text
    raise NotImplementedError(f"size expression {expr} has a {kind}, which has no {target} text")
