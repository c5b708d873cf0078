"""Pointwise and activation rules against eager: every function over its dtypes and over special values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.ir import reference

from ..support import assert_as_accurate
from .support import externs, lowered

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 0.5, 2.5, -2.5, 1e-3, 30.0]


def values(dtype: torch.dtype) -> torch.Tensor:
    """Three rows: special values and random ones; small integers for the other dtypes."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        rows = torch.cat([torch.tensor(SPECIAL), torch.randn(2 * len(SPECIAL), generator=generator) * 3])
        return rows.reshape(3, -1).to(dtype)
    if dtype is torch.bool:
        return torch.rand(3, 4, generator=generator) > 0.5
    low = 0 if dtype is torch.uint8 else -6
    return torch.randint(low, 7, (3, 4), generator=generator, dtype=torch.int64).to(dtype)


UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc exp exp2 expm1 floor frac isfinite isinf
isnan log log10 log1p log2 logical_not neg positive rad2deg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt
square tan tanh trunc zeros_like ones_like clone""".split()
TRANSCENDENTAL = """acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 log log10 log1p log2 rsqrt sigmoid
sin sinh tan tanh""".split()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary_of_floats(kernel_only, name, dtype):
    kernel_only(lambda x: getattr(torch, name)(x), values(dtype))


NOT_FOR_INTS = {"frac"}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", [n for n in UNARY if n not in NOT_FOR_INTS])
def test_unary_of_ints(check, name, dtype):
    """In kernels where the result is exact; ATen's own last bit otherwise."""
    graph = check(lambda x: getattr(torch, name)(x), values(dtype))
    assert bool(externs(graph)) == (name in TRANSCENDENTAL)


@pytest.mark.parametrize("name", ["logical_not", "exp", "sin", "sqrt", "isnan", "isfinite", "bitwise_not", "sigmoid"])
def test_unary_of_bools(check, name):
    check(lambda x: getattr(torch, name)(x), values(torch.bool))


ACTIVATIONS = {
    "gelu": lambda x: F.gelu(x.clamp(max=100)),  # eager's vectorised erf makes NaN of +inf, kernels do not
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 1.5),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, 2.0, 5.0),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "threshold_between_halves": lambda x: F.threshold(x, 1e-3, 20.0),
    "logsigmoid": F.logsigmoid,
    "glu": lambda x: F.glu(x, -1),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(kernel_only, name, dtype):
    kernel_only(ACTIVATIONS[name], values(dtype))


SIGNED_ZEROS = {
    "clamp": lambda x: x.clamp(0, 6),
    "clamp_min": lambda x: x.clamp(min=0.0),
    "clamp_max": lambda x: x.clamp(max=0.0),
    "hardtanh": lambda x: F.hardtanh(x, 0.0, 1.0),
    "relu6": F.relu6,
    "softshrink": F.softshrink,
    "tanh": torch.tanh,
    "tanhshrink": F.tanhshrink,
    "erf": torch.erf,
    "relu": F.relu,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SIGNED_ZEROS)
def test_zeros_have_the_sign_that_eager_s_vectors_give_them(name, dtype):
    x = torch.tensor([0.0, -0.0], dtype=dtype).repeat(128)
    function = SIGNED_ZEROS[name]
    assert torch.equal(minicompile.compile(function)(x).signbit(), function(x).signbit())


GRADIENTS = {
    **{name: ACTIVATIONS[name] for name in ("elu", "selu", "celu", "hardtanh", "relu6", "hardswish", "hardsigmoid",
                                            "hardshrink", "softshrink", "leaky_relu", "softplus", "threshold")},
    "elu_in_place": lambda x: F.elu(x * 1, 0.7, inplace=True),
    "hardshrink_at_its_limit": lambda x: F.hardshrink(x, 0.3),
    "smooth_l1": lambda x: F.smooth_l1_loss(x.clamp(-4, 4), torch.zeros_like(x), beta=0.7),
    "smooth_l1_of_each": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_at_special_values_are_those_of_eager_s_vectors(name, dtype):
    """(Eager's scalar code, which takes the last elements, sometimes lets NaN pass another way.)"""
    limits = [-3.0, 3.0, 6.0, -0.3, 0.3, 0.7, -0.7, 0.1]
    x = torch.tensor([*SPECIAL, *limits], dtype=torch.float64).to(dtype)[:, None].repeat(1, 64).flatten()
    grads = []
    for run in (GRADIENTS[name], minicompile.compile(GRADIENTS[name], fullgraph=True)):
        leaf = x.clone().requires_grad_()
        result = run(leaf)
        grads.append(torch.autograd.grad(result, leaf, torch.full_like(result, 0.7))[0])
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2}.get(dtype, 1e-6)
    torch.testing.assert_close(grads[1], grads[0], equal_nan=True, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logit(dtype):
    """Eager rounds inside the operator for half precision; the IR computes in float32, so float64 is the judge."""
    x = values(dtype)[1:]
    graph = lowered(lambda x: torch.logit(x, eps=1e-3), x)
    assert externs(graph) == []
    (actual,), eager = reference.run(graph, x), torch.logit(x, eps=1e-3)
    assert_as_accurate(actual, eager, torch.logit(x.double(), eps=1e-3))


def test_prelu(kernel_only):
    kernel_only(F.prelu, torch.randn(2, 3, 4), torch.rand(3))


BINARY = {
    "add": lambda x, y: x + y,
    "add_alpha": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: x - y,
    "sub_alpha": lambda x, y: torch.sub(x, y, alpha=3),
    "rsub": lambda x, y: torch.rsub(x, y),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "atan2": torch.atan2,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "where": lambda x, y: torch.where(x > y, x, y),
    "clamp": lambda x, y: torch.clamp(x, y, y + 1),
}
FLOAT_BINARY = {
    "floor_divide": torch.floor_divide,
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "copysign": torch.copysign,
    "pow": torch.pow,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp_far": lambda x, y: torch.lerp(x, y, 0.8),
    "lerp_tensor": lambda x, y: torch.lerp(x, y, y),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    "hypot": torch.hypot,
    "xlogy": torch.xlogy,
    "logaddexp": torch.logaddexp,
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", BINARY)
def test_binary(check, name, dtype):
    x = values(dtype)
    graph = check(BINARY[name], x, x.flip(0, 1).contiguous())
    assert bool(externs(graph)) == (name == "atan2" and not dtype.is_floating_point)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_binary_of_floats(check, name, dtype):
    x = values(dtype)
    check(FLOAT_BINARY[name], x, x.flip(0, 1).contiguous())


MIXED = [
    (torch.float32, torch.int64), (torch.bfloat16, torch.float32), (torch.float16, torch.bfloat16),
    (torch.int8, torch.uint8), (torch.bool, torch.int32), (torch.bool, torch.float16), (torch.int64, torch.float64),
]


@pytest.mark.parametrize("left,right", MIXED)
@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("clamp", "sub", "sub_alpha", "rsub", "add_alpha")])
def test_type_promotion_of_tensors(check, name, left, right):
    graph = check(BINARY[name], values(left)[:, :4].contiguous(), values(right)[:, :4].contiguous())
    integers = not (left.is_floating_point or right.is_floating_point)
    assert bool(externs(graph)) == (name == "atan2" and integers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
@pytest.mark.parametrize("scalar", [2, 0.5, True])
@pytest.mark.parametrize("name", ["add", "mul", "div", "eq", "lt", "ge"])
def test_type_promotion_of_scalars(kernel_only, name, scalar, dtype):
    kernel_only(lambda x: BINARY[name](x, scalar), values(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("zero_dim", [torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("name", ["add", "mul", "div", "lt", "maximum"])
def test_type_promotion_of_zero_dim_tensors(kernel_only, name, zero_dim, dtype):
    kernel_only(BINARY[name], values(dtype), torch.tensor(2, dtype=torch.int64).to(zero_dim))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "eq"])
def test_zero_dim_tensors_are_cast_before_they_are_asked(kernel_only, name):
    """2^32 is 0 as int32, 1e-60 as float32."""
    kernel_only(BINARY[name], torch.tensor([0, 1, 7], dtype=torch.int32), torch.tensor(1 << 32))
    kernel_only(BINARY[name], torch.tensor([0.0, 1.0, 7.0]), torch.tensor(1e-60, dtype=torch.float64))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 7])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pow_scalar(kernel_only, dtype, exponent):
    kernel_only(lambda x: x**exponent, values(dtype))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_pow_of_ints(kernel_only, dtype, exponent):
    kernel_only(lambda x: x**exponent, values(dtype))


def test_scalar_to_the_power_of_a_tensor(kernel_only):
    kernel_only(lambda x: 2.0**x, values(torch.float32))


@pytest.mark.parametrize("dtype", INTS)
def test_powers_of_integer_tensors(kernel_only, dtype):
    """Products wrap around; the power of a negative exponent is 1, -1 or 0."""
    x = torch.tensor([0, 1, 2, 3, 5, 7, 11, 100]).to(dtype)
    y = torch.tensor([0, 1, 2, 3, 40, 70, 9, 5]).to(dtype)
    signs = [1] if dtype is torch.uint8 else [1, -1]
    for a in signs:
        for b in signs:
            kernel_only(lambda x, y: (x**y, 2**y, x ** y.to(torch.int64)), x * a, y * b)
    kernel_only(lambda x, y: (torch.pow(x, y), (-1) ** y), torch.arange(-3, 4).to(torch.int8), torch.arange(-3, 4))


@pytest.mark.parametrize("function", [torch.add, torch.sub, torch.rsub])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_and_differences_are_not_rounded_within_a_kernel(function, dtype):
    """One of two kinds rounded, and the other not, would be worse than either: trapezoid has both."""
    x, y, z = (torch.randn(1000, generator=torch.Generator().manual_seed(i)).to(dtype) for i in range(3))
    got = minicompile.compile(lambda x, y, z: function(x, y) * z)(x, y, z)
    assert got.equal((function(x.float(), y.float()) * z.float()).to(dtype))


@pytest.mark.parametrize("function", [torch.sub, torch.add, torch.rsub, lambda x, y: torch.add(x, y, alpha=2),
                                      lambda x, y: torch.lerp(x.to(y.dtype), y, 0.3)])
@pytest.mark.parametrize("zero_dim", [torch.tensor(2**40), torch.tensor(1e30), torch.tensor(1.0009765)])
def test_numbers_become_half_precision_first(kernel_only, function, zero_dim):
    y = torch.tensor([float("inf"), 1.0, -2.0], dtype=torch.float16)
    kernel_only(lambda x, y: function(x, y), zero_dim, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_angle_of_real_numbers(kernel_only, dtype):
    kernel_only(torch.angle, values(dtype))


@pytest.mark.parametrize("divisor", [2, 3, -3])
@pytest.mark.parametrize("op", [
    lambda x, d: x // d, lambda x, d: x % d, lambda x, d: torch.fmod(x, d),
    lambda x, d: torch.div(x, d, rounding_mode="trunc"),
], ids=["floor", "remainder", "fmod", "trunc"])
def test_integer_division_by_a_constant(kernel_only, op, divisor):
    kernel_only(lambda x: op(x, divisor), values(torch.int64))


def test_integer_division_by_a_tensor_stays_extern(check):
    graph = check(lambda x, y: x // y, values(torch.int64), values(torch.int64).abs() + 1)
    assert [node.op for node in graph.nodes] == ["extern"]


def test_integer_division_by_zero_raises_as_eager():
    graph = lowered(lambda x, y: x // y, torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        reference.run(graph, torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("low,high", [(None, 1), (-1, None), (-0.5, 1.5), (2, -2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_clamp(kernel_only, dtype, low, high):
    kernel_only(lambda x: torch.clamp(x, low, high), values(dtype))


@pytest.mark.parametrize("target", [*FLOATS, *INTS, torch.bool])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_casts(kernel_only, source, target):
    x = values(source)
    finite = torch.nan_to_num(x, 0, 3, -3).abs() if source.is_floating_point else x
    kernel_only(lambda x: x.to(target), finite)


def test_masked_fill(kernel_only):
    kernel_only(lambda x, m: x.masked_fill(m, float("-inf")), torch.randn(3, 4), torch.rand(4) > 0.5)


def test_bitwise(kernel_only):
    x = values(torch.int32)
    kernel_only(lambda x, y: ((x & y) | 3) ^ ~y, x, x.flip(0).contiguous())


def test_complex_stays_extern(check):
    graph = check(lambda x: (x * 2j).abs(), torch.randn(3, 4))
    assert all(node.op in ("extern", "getitem", "cast") for node in graph.nodes)


def test_a_scalar_that_does_not_fit_is_left_to_eager(check):
    check(lambda x: x < 300, values(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["add", "sub", "rsub", "mul", "div", "eq", "lt", "ge", "fmod", "remainder", "pow"])
def test_scalars_beside_half_precision(check, name, dtype):
    """0.7 is no bfloat16: eager rounds it first, but not for products and quotients."""
    x = torch.tensor([0.7, 0.69921875, 0.703125, 1.5, -3.25, 0.2, 100.0, 0.7001953125]).to(dtype)
    check(lambda x: getattr(torch, name)(x, 0.7), x)


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_beyond_the_bits(kernel_only, dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([1, 3, 100, info.min, info.max, info.min + 7]).to(dtype).repeat(10)
    n = torch.tensor([0, 1, 7, 8, 15, 31, 32, 63, 64, 100] if info.min == 0 else [0, 1, 7, 8, 15, 31, 32, 63, 64, -1])
    n = n.repeat_interleave(6).to(dtype)
    kernel_only(lambda x, n: x << n, x, n)
    kernel_only(lambda x, n: x >> n, x, n)


NUMBERS = [
    0.7, 3, torch.tensor(0.7), torch.tensor(-(2**63)), torch.tensor([300001]), torch.tensor([[7]], dtype=torch.uint8),
    torch.tensor(True), torch.tensor(0.1, dtype=torch.float64),
]
QUOTIENTS = {
    "mul": torch.mul,
    "div": torch.div,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}


def halves(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(500, generator=torch.Generator().manual_seed(0)) * 50
    return torch.cat([x, torch.tensor(SPECIAL)]).to(dtype)


@pytest.mark.parametrize("number", [*NUMBERS, "same dtype", "tensor", "integers"], ids=str)
@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_and_quotients_of_half_precision_are_rounded_as_eager_rounds(name, number, dtype):
    """A number is not rounded, be it a tensor; of two tensors every step is."""
    x, function = halves(dtype), QUOTIENTS[name]
    others = {"same dtype": torch.tensor(0.7).to(dtype), "tensor": x.flip(0), "integers": torch.arange(1, 513)}
    y = others[number] if isinstance(number, str) else number
    inputs = [x, y] if isinstance(y, torch.Tensor) else [x]
    for call in [lambda a, b=y: function(a, b)] + [lambda a, b: function(b, a)] * (len(inputs) - 1):
        (result,), wanted = reference.run(lowered(call, *inputs), *inputs), call(*inputs)
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
