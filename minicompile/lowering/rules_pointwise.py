"""Rules for arithmetic, comparison, logic, casts: operators that are one row of the op table, or nearly.

Type promotion is eager's: arithmetic computes in the dtype that the fake result has, comparison in the promoted dtype
of its operands. Integer division by a tensor, which might hold zero, stays with ATen, which raises.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.symbols import same_dim
from ..ir.types import dtype_kind
from .emit import opmath, scalar_as
from .errors import NotConvertible
from .rules import rule


def _register_unary() -> None:
    names = (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid erf "
        "erfc sqrt rsqrt reciprocal neg abs relu bitwise_not"
    )
    for name in names.split():
        rule(name)(_same_dtype_row(name))


EXACT = frozenset("sqrt reciprocal neg abs relu bitwise_not".split())
"""Those whose result has one right rounding, or none."""


def _same_dtype_row(name: str) -> Any:
    def convert(c: Any, x: Node) -> Node:
        if name not in EXACT:
            floats_only(c, x)
        return c.pointwise(name, c.cast(x, c.out.dtype))

    return convert


def floats_only(c: Any, *args: Any) -> None:
    """Of integers eager computes exp, sin, …: users compare such results for equality, so ATen's last bit is kept."""
    if dtype_kind(c.out.dtype) == "f" and not any(
        isinstance(arg, Node) and dtype_kind(arg.tensor.dtype) == "f" for arg in args
    ):
        raise NotConvertible("a transcendental function of integers")


_register_unary()


@rule("sign")
def sign(c: Any, x: Node) -> Node:
    return x if c.out.dtype is torch.bool else c.sign(x)


def _register_rounding() -> None:
    for name in ("floor", "ceil", "trunc"):
        rule(name)(lambda c, x, name=name: c.pointwise(name, x) if dtype_kind(c.out.dtype) == "f" else x)


_register_rounding()


@rule("round.default")
def round_half_even(c: Any, x: Node) -> Node:
    return c.round(x) if dtype_kind(c.out.dtype) == "f" else x


@rule("round.decimals")
def round_decimals(c: Any, x: Node, decimals: int) -> Node:
    """Half precision would have to be rounded after each step, as eager does."""
    if opmath(c.out.dtype) is not c.out.dtype or dtype_kind(c.out.dtype) != "f":
        raise NotConvertible("decimals of half precision or integers")
    if decimals == 0:
        return c.round(x)
    power = float(10 ** abs(decimals))
    if decimals < 0:
        return c.mul(c.round(c.div(x, power)), power)
    return c.div(c.round(c.mul(x, power)), power)


@rule("signbit", "prims::signbit")
def signbit(c: Any, x: Node) -> Node:
    kind = dtype_kind(x.tensor.dtype)
    if kind == "b":
        return c.full(False, c.out)
    return c.lt(c.copysign(1.0, x) if kind == "f" else x, 0)


@rule("angle.default")
def angle(c: Any, x: Node) -> Node:
    """Of a real number: 0, pi below 0, NaN of NaN."""
    if x.tensor.dtype is not c.out.dtype:
        raise NotConvertible("the angle of an integer")
    return c.where(c.lt(x, 0), math.pi, c.where(c.isnan(x), x, c.full(0, x.tensor.like(shape=()))))


@rule("frac")
def frac(c: Any, x: Node) -> Node:
    return c.sub(x, c.trunc(x))


def _register_special() -> None:
    for name in ("isnan", "isinf"):
        rule(name)(
            lambda c, x, name=name: c.pointwise(name, x) if dtype_kind(x.tensor.dtype) == "f" else c.full(False, c.out)
        )


_register_special()


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _scaled(c: Any, value: Any, alpha: Any) -> Any:
    """`alpha * value`; bool with a factor is left to ATen."""
    if alpha == 1:
        return value
    if c.out.dtype is torch.bool:
        raise NotConvertible("alpha with bool")
    return c.mul(value, alpha) if isinstance(value, Node) else value * alpha


def _in_opmath(c: Any, function: Any, *args: Any) -> Node:
    """Several steps that eager rounds once: in float32 for half precision, then back. Operands of other dtypes (a 0-dim
    tensor of integers) become half precision first."""
    dtype = c.out.dtype
    if opmath(dtype) is not dtype:
        args = tuple(arg if isinstance(arg, Node) else scalar_as(arg, dtype, rounded=True) for arg in args)
    return c.cast(function(*c.promote(opmath(dtype), *c.promote(dtype, *args))), dtype)


def _with_scaled(c: Any, op: Any, x: Any, y: Any, alpha: Any) -> Node:
    """A sum or difference of x and `alpha * y`: one step, not rounded within a kernel, where alpha is 1."""
    if alpha == 1:
        return op(*c.promote(c.out.dtype, x, y))
    return _in_opmath(c, lambda a, b: op(a, _scaled(c, b, alpha)), x, y)


@rule("add.Tensor", "add.Scalar")
def add(c: Any, x: Any, y: Any, alpha: Any = 1) -> Node:
    return _with_scaled(c, c.add, x, y, alpha)


@rule("sub.Tensor", "sub.Scalar")
def sub(c: Any, x: Any, y: Any, alpha: Any = 1) -> Node:
    return _with_scaled(c, c.sub, x, y, alpha)


@rule("rsub.Tensor", "rsub.Scalar")
def rsub(c: Any, x: Any, y: Any, alpha: Any = 1) -> Node:
    return _with_scaled(c, c.sub, y, x, alpha)


def _is_number(c: Any, y: Any) -> bool:
    """Whether eager's half-precision products and quotients on a CPU take the second operand as a float32 number,
    converted from its own dtype and not rounded (aten/src/ATen/native/cpu/BinaryOpsKernel.cpp)."""
    if opmath(c.out.dtype) is c.out.dtype or c.out.device.type != "cpu":
        return False
    return not isinstance(y, Node) or same_dim(y.tensor.numel, 1)


def _with_number(c: Any, function: Any, x: Any, y: Any) -> Node:
    """Half precision with a number: computed in float32, rounded once."""
    wide = opmath(c.out.dtype)
    result = function(c.cast(c.cast(x, c.out.dtype), wide), c.cast(y, wide) if isinstance(y, Node) else y)
    return c.cast(result, c.out.dtype)


def _product_or_quotient(c: Any, function: Any, x: Any, y: Any) -> Node:
    if isinstance(x, Node) and isinstance(y, Node) and y.tensor.dtype is not c.out.dtype and _is_number(c, y):
        return _with_number(c, function, x, y)
    return function(*c.promote(c.out.dtype, x, y))


@rule("mul.Tensor", "mul.Scalar")
def mul(c: Any, x: Any, y: Any) -> Node:
    return _product_or_quotient(c, c.mul, x, y)


@rule("div.Tensor", "div.Scalar")
def div(c: Any, x: Any, y: Any) -> Node:
    return _product_or_quotient(c, c.div, x, y)


def _safe_divisor(c: Any, y: Any) -> None:
    """Integers: only a constant divisor is known not to be 0; -1 overflows on the smallest integer."""
    if dtype_kind(c.out.dtype) != "f" and (not isinstance(y, int) or y in (0, -1)):
        raise NotConvertible("an integer division that may raise")


@rule("div.Tensor_mode", "div.Scalar_mode")
def div_mode(c: Any, x: Any, y: Any, rounding_mode: str | None = None) -> Node:
    if rounding_mode is None:
        return div(c, x, y)
    _safe_divisor(c, y)
    if isinstance(x, Node) and _is_number(c, y):
        return _with_number(c, c.floor_divide if rounding_mode == "floor" else c.trunc_divide, x, y)
    x, y = c.promote(c.out.dtype, x, y)
    if opmath(c.out.dtype) is c.out.dtype:
        return c.floor_divide(x, y) if rounding_mode == "floor" else c.trunc_divide(x, y)
    x, y = c.promote(opmath(c.out.dtype), x, y)
    if rounding_mode == "floor":
        return c.cast(_floor_in_steps(c, x, y), c.out.dtype)
    return c.trunc(c.cast(c.div(x, y), c.out.dtype))  # eager rounds the quotient to half precision before it truncates


def _floor_in_steps(c: Any, x: Any, y: Any) -> Node:
    """Eager's floor division of half-precision tensors, which rounds every step (c10/util/generic_math.h)."""

    def rounded(node: Node) -> Node:
        return c.cast(c.cast(node, c.out.dtype), opmath(c.out.dtype))

    rest = c.fmod(x, y)
    quotient = rounded(c.div(rounded(c.sub(x, rest)), y))
    other_sign = c.logical_and(c.ne(rest, 0), c.logical_xor(c.lt(y, 0), c.lt(rest, 0)))
    quotient = c.where(other_sign, rounded(c.sub(quotient, 1)), quotient)
    floor = c.floor(quotient)
    floor = c.where(c.gt(rounded(c.sub(quotient, floor)), 0.5), rounded(c.add(floor, 1)), floor)
    plain = rounded(c.div(x, y))
    return c.where(c.eq(y, 0), plain, c.where(c.eq(quotient, 0), c.copysign(0.0, plain), floor))


@rule("floor_divide")
def floor_divide(c: Any, x: Any, y: Any) -> Node:
    return div_mode(c, x, y, "floor")


def _modulo(name: str) -> Any:
    def convert(c: Any, x: Any, y: Any) -> Node:
        _safe_divisor(c, y)
        return c.pointwise(name, *c.promote(c.out.dtype, x, y))

    return convert


rule("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")(_modulo("remainder"))
rule("fmod.Tensor", "fmod.Scalar")(_modulo("fmod"))


def _register_binary() -> None:
    rows = {"maximum": "maximum", "minimum": "minimum", "copysign.Tensor": "copysign",
            "copysign.Scalar": "copysign", "bitwise_and.Tensor": "bitwise_and", "bitwise_and.Scalar": "bitwise_and",
            "bitwise_or.Tensor": "bitwise_or", "bitwise_or.Scalar": "bitwise_or",
            "bitwise_xor.Tensor": "bitwise_xor", "bitwise_xor.Scalar": "bitwise_xor",
            "bitwise_left_shift.Tensor": "shift_left", "bitwise_left_shift.Tensor_Scalar": "shift_left",
            "bitwise_right_shift.Tensor": "shift_right", "bitwise_right_shift.Tensor_Scalar": "shift_right",
            "__lshift__.Tensor": "shift_left", "__lshift__.Scalar": "shift_left",
            "__rshift__.Tensor": "shift_right", "__rshift__.Scalar": "shift_right"}
    for name, row in rows.items():
        rule(name)(lambda c, x, y, row=row: c.pointwise(row, *c.promote(c.out.dtype, x, y)))


_register_binary()


def _ignoring_nan(name: str) -> Any:
    """NaN only where both are."""

    def convert(c: Any, x: Node, y: Node) -> Node:
        x, y = c.promote(c.out.dtype, x, y)
        best = c.pointwise(name, x, y)
        if dtype_kind(c.out.dtype) != "f":
            return best
        return c.where(c.isnan(x), y, c.where(c.isnan(y), x, best))

    return convert


rule("fmax.default", "prims::fmax")(_ignoring_nan("maximum"))
rule("fmin.default", "prims::fmin")(_ignoring_nan("minimum"))


@rule("atan2.default")
def atan2(c: Any, x: Node, y: Node) -> Node:
    floats_only(c, x, y)
    return c.atan2(*c.promote(c.out.dtype, x, y))


# --- powers ---------------------------------------------------------------------------------------------------------


@rule("pow.Tensor_Scalar")
def power(c: Any, x: Node, exponent: Any) -> Node:
    """Eager's own special cases (aten/src/ATen/native/cpu/PowKernel.cpp), then the general row."""
    x = c.cast(x, c.out.dtype)
    kind = dtype_kind(c.out.dtype)
    if kind == "b" or not isinstance(exponent, (int, float)):
        raise NotConvertible("pow of bool, or a symbolic exponent")
    if exponent == 0:
        return c.full(1, c.out)
    if exponent == 1:
        return x
    if kind == "i" and exponent < 0:
        raise NotConvertible("eager raises for negative integer powers")
    return c.cast(_float_power(c, c.upcast(x), scalar_as(exponent, c.out.dtype, rounded=True)), c.out.dtype)


def _float_power(c: Any, x: Node, exponent: float) -> Node:
    if exponent == 2:
        return c.mul(x, x)
    if exponent == 3:
        return c.mul(c.mul(x, x), x)
    if abs(exponent) == 0.5 and not _half_on_cpu(c):
        return c.sqrt(x) if exponent > 0 else c.rsqrt(x)
    if exponent == -1:
        return c.reciprocal(x)
    if exponent == -2:
        return c.reciprocal(c.mul(x, x))
    return c.pow(x, exponent)


def _half_on_cpu(c: Any) -> bool:
    """Where eager takes a real power for a square root: `(-inf) ** 0.5` is inf, not NaN, and `(-0.0) ** 0.5` is 0."""
    return c.out.dtype is torch.float16 and c.out.device.type == "cpu"


@rule("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensors(c: Any, x: Any, y: Any) -> Node:
    """A negative power of an integer is what eager makes of it: 1, -1 or 0."""
    if dtype_kind(c.out.dtype) == "b":
        raise NotConvertible("powers of bools")
    return c.pow(*c.promote(c.out.dtype, x, y))


@rule("float_power.Tensor_Scalar")
def float_power(c: Any, x: Node, exponent: Any) -> Node:
    return c.pow(c.cast(x, torch.float64), exponent)


# --- comparison, logic, selection -----------------------------------------------------------------------------------


def _comparison(name: str) -> Any:
    def convert(c: Any, x: Any, y: Any) -> Node:
        return c.pointwise(name, *c.promote(_promoted(c), x, y))

    return convert


def _promoted(c: Any) -> torch.dtype:
    """The dtype in which eager compares the current call's two operands."""
    scalars = {torch.SymInt: 1, torch.SymFloat: 1.0}
    return torch.result_type(*(scalars.get(type(value), value) for value in c.fakes[:2]))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    rule(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_name))


def _logic(name: str) -> Any:
    def convert(c: Any, x: Node, y: Node) -> Node:
        x, y = c.promote(_promoted(c), x, y)  # a scalar tensor is cast to the other's dtype before it is asked
        return c.pointwise(name, as_bool(c, x), as_bool(c, y))

    return convert


def as_bool(c: Any, x: Node) -> Node:
    """Whether each element is non-zero (NaN is)."""
    return x if x.tensor.dtype is torch.bool else c.ne(x, 0)


for _name in ("logical_and", "logical_or", "logical_xor"):
    rule(f"{_name}.default")(_logic(_name))


@rule("logical_not.default")
def logical_not(c: Any, x: Node) -> Node:
    return c.logical_not(x)


@rule("where.self")
def where(c: Any, condition: Node, x: Node, y: Node) -> Node:
    return c.where(as_bool(c, condition), *c.promote(c.out.dtype, x, y))


@rule("where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where_scalar(c: Any, condition: Node, x: Any, y: Any) -> Node:
    x, y = (v if isinstance(v, Node) else c.full(v, c.out.like(shape=())) for v in (x, y))
    return where(c, condition, x, y)


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(c: Any, x: Node, mask: Node, value: Any) -> Node:
    if isinstance(value, Node):
        value = c.cast(value, c.out.dtype)
    return c.where(mask, value, x)


@rule("clamp.default", "clamp.Tensor")
def clamp(c: Any, x: Node, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Node:
    """NaN in any operand wins; where the bounds cross, the upper one wins. A zero keeps its sign beside a bound of the
    other sign: of equal operands the second one is the result. (With bounds that are tensors gcc would not vectorise
    that.)"""
    low, high = (min if low is None else low), (max if high is None else high)
    x, low, high = c.promote(c.out.dtype, x, low, high)
    if not isinstance(low, Node) and not isinstance(high, Node):
        x = x if low is None else c.maximum(low, x)
        return x if high is None else c.minimum(high, x)
    x = x if low is None else c.maximum(x, low)
    return x if high is None else c.minimum(x, high)


@rule("clamp_min.default", "clamp_min.Tensor")
def clamp_min(c: Any, x: Node, low: Any) -> Node:
    return clamp(c, x, low, None)


@rule("clamp_max.default", "clamp_max.Tensor")
def clamp_max(c: Any, x: Node, high: Any) -> Node:
    return clamp(c, x, None, high)


# --- casts and copies -----------------------------------------------------------------------------------------------


@rule("_to_copy", "prims::convert_element_type")
def to_copy(c: Any, x: Any, *_: Any, **__: Any) -> Node:
    return c.cast(x, c.out.dtype) if isinstance(x, Node) else c.full(x, c.out)  # torch.vmap converts plain numbers


@rule("clone", "contiguous", "detach", "alias", "lift_fresh", "lift_fresh_copy", "lift", "positive")
def same_value(c: Any, x: Node, **_: Any) -> Node:
    return x


@rule("copy.default")
def copy(c: Any, target: Node, source: Node, non_blocking: bool = False) -> Node:
    return c.expand(c.cast(source, c.out.dtype), c.out.shape)


# --- short compounds ------------------------------------------------------------------------------------------------


@rule("addcmul.default")
def addcmul(c: Any, x: Node, a: Node, b: Node, value: Any = 1) -> Node:
    return _in_opmath(c, lambda x, a, b: c.add(x, c.mul(_scaled(c, a, value), b)), x, a, b)


@rule("addcdiv.default")
def addcdiv(c: Any, x: Node, a: Node, b: Node, value: Any = 1) -> Node:
    if dtype_kind(c.out.dtype) != "f":
        raise NotConvertible("eager refuses integer addcdiv")
    return _in_opmath(c, lambda x, a, b: c.add(x, c.div(_scaled(c, a, value), b)), x, a, b)


@rule("lerp.Scalar")
def lerp(c: Any, start: Node, end: Node, weight: Any) -> Node:
    if not isinstance(weight, (int, float)):
        raise NotConvertible("a symbolic weight")

    def formula(a: Node, b: Node) -> Node:
        difference = c.sub(b, a)
        if abs(weight) < 0.5:
            return c.add(a, c.mul(difference, weight))
        return c.sub(b, c.mul(difference, 1 - weight))

    return _in_opmath(c, formula, start, end)


@rule("lerp.Tensor")
def lerp_tensor(c: Any, start: Node, end: Node, weight: Node) -> Node:
    def formula(a: Node, b: Node, w: Node) -> Node:
        difference = c.sub(b, a)
        near_start = c.add(a, c.mul(difference, w))
        near_end = c.sub(b, c.mul(difference, c.sub(1, w)))
        return c.where(c.lt(c.abs(w), 0.5), near_start, near_end)

    return _in_opmath(c, formula, start, end, weight)


@rule("deg2rad.default")
def deg2rad(c: Any, x: Node) -> Node:
    return c.mul(c.cast(x, c.out.dtype), math.pi / 180)


@rule("rad2deg.default")
def rad2deg(c: Any, x: Node) -> Node:
    return c.mul(c.cast(x, c.out.dtype), 180 / math.pi)
