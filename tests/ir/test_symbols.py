"""Size expressions: their text in Python and C++ says what sympy says."""

from __future__ import annotations

import math

import pytest
import sympy
from torch._dynamo.source import LocalSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.functions import (
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    ModularIndexing,
    OpaqueUnaryFn_sqrt,
    ToFloat,
)

from minicompile.ir.symbols import dim_text, evaluate, evaluate_scalar, free_symbols, to_dim

a, b = sympy.symbols("a b", integer=True, positive=True)
EXPRESSIONS = [
    a + 1, a * b + 3, a - b, a**2, FloorDiv(a + 3, b), Mod(a, b), ModularIndexing(a, 2, 5), Max(a, b, 4), Min(a, b),
    ToFloat(a) / 2, IntTrueDiv(a, b), FloatTrueDiv(ToFloat(a), 4.0), OpaqueUnaryFn_sqrt(ToFloat(a)), sympy.sqrt(a),
    1 / a,
]


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("values", [{"a": 7, "b": 3}, {"a": 2, "b": 9}], ids=str)
def test_python_text_evaluates_to_the_expression(expr, values):
    text = dim_text(sympy.sympify(expr))
    assert eval(text, {"math": math, **values}) == pytest.approx(float(evaluate_scalar(expr, values)))


def test_cpp_text():
    assert dim_text(FloorDiv(a + 1, b), "cpp") == "mc_floordiv((1 + a), b)"
    assert dim_text(Max(a, b, 4), "cpp").count("mc_max(") == 2
    assert dim_text(OpaqueUnaryFn_sqrt(ToFloat(a)), "cpp") == "__builtin_sqrt((double)(double)(a))"


def test_unknown_expressions_are_named():
    with pytest.raises(NotImplementedError, match="sin"):
        dim_text(sympy.sin(a))


def test_evaluate():
    assert evaluate(a * b, {"a": 2, "b": 5}) == 10 and evaluate(4, {}) == 4
    assert free_symbols(a * b + 1) == {"a", "b"} and free_symbols(3) == set()
    with pytest.raises(KeyError):
        evaluate(a, {})


def test_what_one_equality_replaces_another_may_go_on_with():
    env, source = ShapeEnv(), LocalSource("n")
    n = env.create_symintnode(env.create_symbol(6, source, DimDynamic.DYNAMIC), hint=6, source=source)
    total = n // 4 + (n // 2 - 1) // 2
    assert n // 4 == 1 and total == (n - 1) // 2  # guards
    assert to_dim(total) == to_dim((n - 1) // 2)
