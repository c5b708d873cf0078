"""The op table: every operation that kernels know, one row each.

In: nothing.
Out: `POINTWISE`, `REDUCTIONS`, `SCANS`, `GATHER`, `VIEWS`, `CREATION`: what an op computes (a torch function, for the
reference interpreter and the tests), and how it is spelled in C++ and in Triton. Adding a scalar op is adding one row
here; the verifier, both printers, the reference interpreter and the table's own tests pick it up.

Rules that hold for every pointwise row, and that the verifier checks:

* all tensor arguments have the node's own shape (broadcasting is an explicit `expand`), strides are free;
* all tensor arguments have one dtype, except `where`, whose first is bool;
* Python scalars among the arguments take that dtype;
* the result has that dtype (`result="same"`) or is bool (`result="bool"`).

In texts, `{0}`, `{1}`, `{2}` are the arguments, already parenthesised where need be; `{t}` is the C++ (Triton) type of
the arguments. A text is one string, or one per kind: `"f"` floating, `"i"` integer, `"b"` bool. In C++, bool is
`unsigned char` holding 0 or 1, integers wrap (`-fwrapv`), float16 and bfloat16 have already become float. Functions
that start with `mc_` are defined in codegen/cpp_prelude.h and codegen/triton_prelude.py, overloaded over the types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .philox import philox
from .scalar_op import ScalarOp, Text
from .special_ops import SPECIAL

__all__ = ["POINTWISE", "ScalarOp"]


def _unary(name: str, fn: Callable[..., Any], kinds: str = "f", cost: int = 16, **texts: Text) -> ScalarOp:
    text = f"mc_{name}({{0}})"
    return ScalarOp(name, 1, fn, texts.get("cpp", text), texts.get("triton", text), kinds, cost=cost)


def _compare(name: str, fn: Callable[..., Any], sign: str) -> ScalarOp:
    return ScalarOp(name, 2, fn, f"(unsigned char)({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})", "fib", "bool")


def _binary(
    name: str, fn: Callable[..., Any], cpp: Text, triton: Text | None = None, kinds: str = "fi", cost: int = 1
) -> ScalarOp:
    return ScalarOp(name, 2, fn, cpp, cpp if triton is None else triton, kinds, cost=cost)


def _logical(name: str, fn: Callable[..., Any], sign: str) -> ScalarOp:
    text = f"(({{0}} != 0) {sign} ({{1}} != 0))"
    return ScalarOp(name, 2, fn, "(unsigned char)" + text, text, "fib", "bool")


def _rows() -> list[ScalarOp]:
    t = torch
    return [
        # --- arithmetic -----------------------------------------------------------------------------------------
        _binary("add", t.add, {"f": "{0} + {1}", "i": "{0} + {1}", "b": "{0} | {1}"}, kinds="fib"),
        _binary("sub", t.sub, "{0} - {1}"),
        _binary("mul", t.mul, {"f": "{0} * {1}", "i": "{0} * {1}", "b": "{0} & {1}"}, kinds="fib"),
        _binary("div", t.div, "{0} / {1}", "mc_div({0}, {1})", "f", 4),  # true division, correctly rounded
        # floor and truncating division: integer rows are not used where the divisor can be 0 (see errors in codegen)
        _binary("floor_divide", t.floor_divide, "mc_floor_divide({0}, {1})", kinds="fi", cost=8),
        _binary("trunc_divide", lambda a, b: t.div(a, b, rounding_mode="trunc"), "mc_trunc_divide({0}, {1})", cost=8),
        _binary("remainder", t.remainder, "mc_remainder({0}, {1})", cost=8),  # sign of the divisor, Python's %
        _binary("fmod", t.fmod, "mc_fmod({0}, {1})", cost=8),  # sign of the dividend, C's fmod
        _binary("pow", t.pow, "mc_pow({0}, {1})", kinds="fi", cost=32),
        _binary("atan2", t.atan2, "mc_atan2({0}, {1})", kinds="f", cost=32),
        _binary("copysign", t.copysign, "mc_copysign({0}, {1})", kinds="f"),
        _binary("maximum", t.maximum, "mc_maximum({0}, {1})", kinds="fib", cost=2),  # NaN wins
        _binary("minimum", t.minimum, "mc_minimum({0}, {1})", kinds="fib", cost=2),  # NaN wins
        ScalarOp("neg", 1, t.neg, "-{0}", "mc_neg({0})"),
        ScalarOp("abs", 1, t.abs, "mc_abs({0})", "tl.abs({0})"),
        ScalarOp("sign", 1, t.sign, "mc_sign({0})", "mc_sign({0})", cost=2),
        ScalarOp("relu", 1, t.relu, "mc_relu({0})", "mc_relu({0})", cost=2),  # NaN stays NaN
        # --- floating functions ---------------------------------------------------------------------------------
        *(_unary(name, getattr(t, name)) for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
            "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc",
        )),
        _unary("sqrt", t.sqrt, cost=4, triton="mc_sqrt({0})"),
        _unary("rsqrt", t.rsqrt, cost=6),
        ScalarOp("reciprocal", 1, t.reciprocal, "({t})1 / {0}", "mc_div(1.0, {0})", "f", cost=4),
        *(_unary(name, getattr(t, name), cost=1) for name in ("floor", "ceil", "trunc")),
        _unary("round", t.round, cost=1),  # half to even
        ScalarOp("isnan", 1, t.isnan, "(unsigned char)({0} != {0})", "({0} != {0})", "f", "bool"),
        ScalarOp("isinf", 1, t.isinf, "mc_isinf({0})", "mc_isinf({0})", "f", "bool", 2),
        # --- comparison and logic -------------------------------------------------------------------------------
        _compare("eq", t.eq, "=="), _compare("ne", t.ne, "!="), _compare("lt", t.lt, "<"),
        _compare("le", t.le, "<="), _compare("gt", t.gt, ">"), _compare("ge", t.ge, ">="),
        ScalarOp("logical_not", 1, t.logical_not, "(unsigned char)({0} == 0)", "({0} == 0)", "fib", "bool"),
        _logical("logical_and", t.logical_and, "&"),
        _logical("logical_or", t.logical_or, "|"),
        _logical("logical_xor", t.logical_xor, "^"),
        ScalarOp("bitwise_not", 1, t.bitwise_not, {"i": "~{0}", "b": "(unsigned char)({0} ^ 1)"},
                 {"i": "~{0}", "b": "({0} == 0)"}, "ib"),
        _binary("bitwise_and", t.bitwise_and, "{0} & {1}", kinds="ib"),
        _binary("bitwise_or", t.bitwise_or, "{0} | {1}", kinds="ib"),
        _binary("bitwise_xor", t.bitwise_xor, "{0} ^ {1}", kinds="ib"),
        _binary("shift_left", t.bitwise_left_shift, "mc_shift_left({0}, {1})", kinds="i", cost=3),
        _binary("shift_right", t.bitwise_right_shift, "mc_shift_right({0}, {1})", kinds="i", cost=3),
        # --- random bits: of a key, which a graph draws when it runs, and a counter -----------------------------
        _binary("philox", philox, "mc_philox<{t}>({0}, {1})", "mc_philox({0}, {1})", kinds="i", cost=64),
        ScalarOp("where", 3, t.where, "{0} ? {1} : {2}", "tl.where({0}, {1}, {2})", "fib"),
    ]


POINTWISE: dict[str, ScalarOp] = {row.name: row for row in (*_rows(), *SPECIAL)}
"""Pointwise rows by name. `cast` (attrs: dtype) is pointwise too, and spelled by the printers, not by a row."""


@dataclass(frozen=True)
class ReduceOp:
    """One reduction row. In IR, a reduction node has attrs `dims` (sorted, non-negative ints), and keeps its reduced
    dimensions with size 1; dropping them is a `reshape`. Its argument already has the result's dtype.

    Attributes:
        combine: the POINTWISE op that joins two partial results.
        identity: dtype → the value that changes nothing, which masked lanes hold.
    """

    name: str
    torch: Callable[..., Any]
    combine: str
    identity: Callable[[Any], Any]
    kinds: str = "fi"


def lowest(dtype: torch.dtype) -> Any:
    """-inf, the smallest integer, or False."""
    if dtype is torch.bool:
        return False
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    """+inf, the largest integer, or True."""
    if dtype is torch.bool:
        return True
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _prod(x: torch.Tensor, dims: tuple[int, ...], keepdim: bool) -> torch.Tensor:
    for dim in dims:
        x = x.prod(dim, keepdim=keepdim, dtype=x.dtype)
    return x


REDUCTIONS: dict[str, ReduceOp] = {
    row.name: row
    for row in (
        ReduceOp("sum", lambda x, dims, keepdim: x.sum(dims, keepdim, dtype=x.dtype), "add", lambda _: 0),
        ReduceOp("prod", _prod, "mul", lambda _: 1),
        ReduceOp("amax", torch.amax, "maximum", lowest, "fib"),
        ReduceOp("amin", torch.amin, "minimum", highest, "fib"),
        ReduceOp("any", torch.any, "logical_or", lambda _: False, "b"),
        ReduceOp("all", torch.all, "logical_and", lambda _: True, "b"),
    )
}

VIEWS = frozenset({"reshape", "permute", "expand", "slice"})
"""Views, the four to which lowering reduces all others, each with the attrs given and one tensor argument.

reshape (the type's shape; the argument need not be contiguous: then code generation copies), permute (attrs: dims),
expand (the type's shape, of the same rank: size-1 dimensions become stride 0), slice (attrs: dim, start, step, which
may be negative and then walks backwards; the type's shape has the length)."""

SCANS: dict[str, ReduceOp] = {
    row.name: row
    for row in (
        ReduceOp("cumsum", lambda x, dim: x.cumsum(dim, dtype=x.dtype), "add", lambda _: 0),
        ReduceOp("cumprod", lambda x, dim: x.cumprod(dim, dtype=x.dtype), "mul", lambda _: 1),
    )
}
"""Running reductions (attrs: dim): element i of the result joins the elements 0 … i; shape and dtype stay."""

GATHER = "gather"
"""An indirect load; the args are the source, then an int64 index for each of the source's dimensions `dims` (attrs,
sorted), and last, if attrs `masked`, a bool mask. Indices and mask have the node's own shape; so has the source, except
in `dims`. Element p of the result is the source's element at p, with p[d] replaced by that dimension's index; where the
mask is false it is 0 and nothing is read.

attrs `checked`: "wrap": an index may be negative, and counts from the end then; one out of range is an error, as in
eager. "strict": a negative one is an error too. "": lowering has made sure that every index read is in range."""

CREATION = frozenset({"full", "iota"})
"""Without tensor arguments: full (args: value), iota (attrs: dim; int64 index along that dimension of its shape)."""

STRUCTURAL = frozenset({"input", "extern", "getitem", "cast", "constant"})
"""input (attrs: name, index).

cast (attrs: dtype): pointwise; to the dtype that the argument already has it is a copy, made for its strides.

constant (attrs: value, a real tensor that nobody writes).

extern (attrs: target, an OpOverload; kwargs, a dict without Nodes; keywords): calls ATen. The args are ATen's, and at
their end stand the Nodes of keyword arguments, named in order by the tuple `keywords`. Tensor arguments must be laid
out by the strides of their types: ATen's results may depend on them. The type is a tuple where ATen returns several;
its entries are None for results that are not tensors. The result never shares memory with an argument. Torch's fake
tensors are now and then wrong about the strides of a result: who reads it by its type's strides must check them, and
who returns it returns it as it is. `effect=True`
marks calls that do more than return a value (random numbers, in-place): all of them run, once, in order.

getitem (args: extern node, index)."""

def is_pointwise(op: str) -> bool:
    """Whether each element of the result depends on the elements in its own place."""
    return op in POINTWISE or op == "cast"


def is_compute(op: str) -> bool:
    """Whether kernels compute the op."""
    return is_pointwise(op) or op in REDUCTIONS or op in SCANS or op == GATHER


def known(op: str) -> bool:
    """Whether the table has the op; anything else may not stand in a graph."""
    return is_compute(op) or op in VIEWS or op in CREATION or op in STRUCTURAL
