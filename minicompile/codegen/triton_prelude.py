"""Scalar functions and reductions for generated Triton kernels: what the op table calls `mc_…`.

In: nothing; importing this imports triton, so only the Triton back end does.
Out: `@triton.jit` functions over float32, float64 and the integers.

On a device they are libdevice's. The interpreter (TRITON_INTERPRET=1, set before triton is imported) has no
libdevice; there they are built from `tl`, right to a few ulp, and the few that it cannot build are absent."""
# ruff: noqa: E712, SIM108

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .triton_compat import INTERPRETED


@triton.jit
def mc_div(x, y):
    x = tl.cast(x, y.dtype)
    if y.dtype == tl.float64:
        result = x / y
    else:
        x, y = tl.broadcast(x, y)
        result = tl.div_rn(x, y)
    return result


@triton.jit
def mc_relu(x):
    """As eager's kernel for a GPU: of -0, 0."""
    return tl.where(x <= 0, tl.zeros_like(x), x)


@triton.jit
def mc_sign(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def mc_isinf(x):
    return tl.abs(x) == float("inf")


@triton.jit
def mc_maximum(x, y):
    if x.dtype.is_floating():
        result = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    else:
        result = tl.where(x > y, x, y)
    return result


@triton.jit
def mc_minimum(x, y):
    if x.dtype.is_floating():
        result = tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
    else:
        result = tl.where(x < y, x, y)
    return result


@triton.jit
def mc_add(x, y):
    return x + y


@triton.jit
def mc_mul(x, y):
    return x * y


@triton.jit
def mc_or(x, y):
    return x | y


@triton.jit
def mc_and(x, y):
    return x & y


@triton.jit
def mc_divisor_scale(x):
    """A power of two with which x has a reciprocal that neither overflows nor is subnormal."""
    a = tl.abs(x)
    return tl.where(a < 5.421010862427522e-20, 18446744073709551616.0, tl.where(a > 18446744073709551616.0,
                    5.421010862427522e-20, 1.0))


@triton.jit
def mc_online_sum(total, largest, x):
    """The sum of exp(x - largest), and the largest, over four more elements a lane: rescaled to the new largest."""
    first, second = tl.split(tl.reshape(x, [x.shape[0], x.shape[1] // 2, 2]))
    a, b = tl.split(tl.reshape(first, [x.shape[0], x.shape[1] // 4, 2]))
    c, d = tl.split(tl.reshape(second, [x.shape[0], x.shape[1] // 4, 2]))
    top = mc_maximum(mc_maximum(largest, mc_maximum(a, b)), mc_maximum(c, d))
    base = tl.where(top == float("-inf"), 0.0, top)
    new = (mc_exp_below(a - base) + mc_exp_below(b - base)) + (mc_exp_below(c - base) + mc_exp_below(d - base))
    return total * mc_exp_below(largest - base) + new, top


@triton.jit
def mc_near_one_log(x):
    """log of 0.625 to 1.6, where log2 of the hardware is right to 2⁻²² only in absolute terms: f + f²·q(f), to 3 ulp.

    q is the polynomial of degree 8 that makes the largest relative error least (Lawson's iteration). A shorter series
    in (x - 1) / (x + 1) would need the reciprocal, which is an eighth as fast as a product."""
    f = x - 1.0
    q = tl.fma(f, -0.06409004, 0.1362351)
    q = tl.fma(q, f, -0.14421096)
    q = tl.fma(q, f, 0.14176546)
    q = tl.fma(q, f, -0.16418067)
    q = tl.fma(q, f, 0.19991487)
    q = tl.fma(q, f, -0.25011513)
    q = tl.fma(q, f, 0.3333374)
    q = tl.fma(q, f, -0.49999857)
    return tl.fma(f * f, q, f)


@triton.jit
def mc_log(x):
    """Natural logarithm; float32 to 3 ulp in a third of the instructions of libdevice's."""
    if x.dtype == tl.float64:
        result = mc_wide_log(x)
    else:
        near = (x > 0.625) & (x < 1.6)
        result = tl.where(near, mc_near_one_log(x), mc_fast_log2(x) * 0.69314718055994531)
    return result


@triton.jit
def mc_sqrt(x):
    if x.dtype == tl.float64:
        result = tl.sqrt(x)
    else:
        result = tl.sqrt_rn(x)
    return result


@triton.jit
def mc_rsqrt(x):
    return mc_div(1.0, mc_sqrt(x))


@triton.jit
def mc_neg(x):
    """Triton's minus subtracts from 0, which loses the sign of a zero."""
    if x.dtype.is_floating():
        result = x * -1.0
    else:
        result = -x
    return result


@triton.jit
def mc_floor(x):
    return tl.floor(x)


@triton.jit
def mc_ceil(x):
    return tl.ceil(x)


@triton.jit
def mc_trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))


@triton.jit
def mc_sigmoid(x):
    e = mc_exp(-tl.abs(x))
    return mc_div(tl.where(x < 0, e, 1.0), 1.0 + e)


@triton.jit
def mc_fmod(x, y):
    if x.dtype.is_floating():
        result = mc_float_fmod(x, y)
    else:
        safe = tl.where(y == 0, y + 1, y)
        result = tl.where((y == 0) | (y == -1), x - x, x % safe)
    return result


@triton.jit
def mc_remainder(x, y):
    r = mc_fmod(x, y)
    return tl.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


@triton.jit
def mc_philox(key, counter):
    """Philox 4x32-10 (see ir/philox.py)."""
    key, n = tl.broadcast(tl.cast(key, tl.int64), tl.cast(counter, tl.int64))
    key0, key1 = key.to(tl.uint32), (key >> 32).to(tl.uint32)
    a, b = n.to(tl.uint32), (n >> 32).to(tl.uint32)
    c, d = a ^ a, a ^ a
    for _ in tl.static_range(10):
        first, second = a, c
        a = tl.umulhi(second, 0xCD9E8D57) ^ b ^ key0
        c = tl.umulhi(first, 0xD2511F53) ^ d ^ key1
        b = tl.mul(second, 0xCD9E8D57, sanitize_overflow=False)
        d = tl.mul(first, 0xD2511F53, sanitize_overflow=False)
        key0 = tl.add(key0, 0x9E3779B9, sanitize_overflow=False)
        key1 = tl.add(key1, 0xBB67AE85, sanitize_overflow=False)
    return (a.to(tl.uint64) | (b.to(tl.uint64) << 32)).to(tl.int64).to(counter.dtype)


@triton.jit
def mc_shift_left(x, n):
    x, n = tl.broadcast(x, n)
    fits = (n >= 0) & (n < x.dtype.primitive_bitwidth)
    return tl.where(fits, x << tl.where(fits, n, n - n), x - x)


@triton.jit
def mc_shift_right(x, n):
    x, n = tl.broadcast(x, n)
    fits = (n >= 0) & (n < x.dtype.primitive_bitwidth)
    return tl.where(fits, x >> tl.where(fits, n, n - n), tl.where(x < 0, x - x - 1, x - x))


@triton.jit
def mc_trunc_divide(x, y):
    if x.dtype.is_floating():
        result = mc_trunc(mc_div(x, y))
    else:
        safe = tl.where(y == 0, y + 1, y)
        result = tl.where(y == 0, x - x, tl.where(y == -1, x - x - x, x // safe))
    return result


@triton.jit
def mc_floor_divide(x, y):
    if x.dtype.is_floating():
        mod = mc_float_fmod(x, y)
        div = mc_div(x - mod, y)
        div = tl.where((mod != 0) & ((y < 0) != (mod < 0)), div - 1, div)
        low = tl.floor(div)
        near = tl.where(div - low > 0.5, low + 1, low)
        quotient = mc_div(x, y)
        near = tl.where(div == 0, mc_copysign(tl.zeros_like(div), quotient), near)
        result = tl.where(y == 0, quotient, near)
    else:
        q = mc_trunc_divide(x, y)
        r = x - q * y
        result = tl.where((y != 0) & (r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    return result


@triton.jit
def mc_pow(x, y):
    if x.dtype.is_floating():
        result = mc_float_pow(x, y)
    else:
        result = mc_int_pow(x, y)
    return result


@triton.jit
def mc_int_pow(x, y):
    """Square and multiply over the exponent's bits; a negative exponent gives 0 unless the base is 1 or -1."""
    x, y = tl.broadcast(x, y)
    one = x - x + 1
    result = one
    base = x
    left = tl.where(y < 0, y - y, y)
    for _ in range(x.dtype.primitive_bitwidth):
        result = tl.where(left & 1 != 0, result * base, result)
        base = base * base
        left = left >> 1
    unit = tl.where(x == one, one, tl.where(x == -one, tl.where(y & 1 != 0, -one, one), one - one))
    return tl.where(y < 0, unit, result)


if INTERPRETED:

    @triton.jit
    def mc_dot(left, right, total, precision: tl.constexpr):
        """The interpreter multiplies bfloat16 as the integers that hold it."""
        return tl.dot(left.to(tl.float32), right.to(tl.float32), total, input_precision="ieee")

    @triton.jit
    def mc_exp(x):
        return tl.exp(x)

    @triton.jit
    def mc_exp_below(x):
        return tl.exp(x)

    @triton.jit
    def mc_exp2(x):
        return tl.exp2(x)

    @triton.jit
    def mc_expm1(x):
        near = x + x * x * (0.5 + x * (1.0 / 6 + x / 24))
        return tl.where(tl.abs(x) < 1e-2, near, tl.exp(x) - 1)

    @triton.jit
    def mc_wide_log(x):
        return tl.log(x)

    @triton.jit
    def mc_fast_log2(x):
        return tl.log2(x)

    @triton.jit
    def mc_log2(x):
        return tl.log2(x)

    @triton.jit
    def mc_log10(x):
        return tl.log(x) * 0.4342944819032518

    @triton.jit
    def mc_log1p(x):
        near = x - x * x * (0.5 - x / 3)
        return tl.where(tl.abs(x) < 1e-2, near, tl.log(1 + x))

    @triton.jit
    def mc_sin(x):
        return tl.sin(x)

    @triton.jit
    def mc_cos(x):
        return tl.cos(x)

    @triton.jit
    def mc_tan(x):
        return tl.sin(x) / tl.cos(x)

    @triton.jit
    def mc_sinh(x):
        return (tl.exp(x) - tl.exp(-x)) * 0.5

    @triton.jit
    def mc_cosh(x):
        return (tl.exp(x) + tl.exp(-x)) * 0.5

    @triton.jit
    def mc_tanh(x):
        e = tl.exp(-2 * tl.abs(x))
        return mc_copysign((1 - e) / (1 + e), x)

    @triton.jit
    def mc_asinh(x):
        a = tl.abs(x)
        return mc_copysign(tl.log(a + tl.sqrt(a * a + 1)), x)

    @triton.jit
    def mc_acosh(x):
        return tl.log(x + tl.sqrt(x * x - 1))

    @triton.jit
    def mc_atanh(x):
        return 0.5 * tl.log((1 + x) / (1 - x))

    @triton.jit
    def mc_erf(x):
        return tl.erf(x)

    @triton.jit
    def mc_erfc(x):
        return 1 - tl.erf(x)

    @triton.jit
    def mc_round(x):
        low = tl.floor(x)
        rest = x - low
        odd = low - 2 * tl.floor(low * 0.5) != 0
        return tl.where((rest > 0.5) | ((rest == 0.5) & odd), low + 1, low)

    @triton.jit
    def mc_copysign(x, y):
        a = tl.abs(x)
        return tl.where(y < 0, -a, a)

    @triton.jit
    def mc_float_fmod(x, y):
        return x - y * mc_trunc(x / y)

    @triton.jit
    def mc_float_pow(x, y):
        return tl.where(y == 0, 1.0, tl.exp(y * tl.log(x)))

else:

    @triton.jit
    def mc_dot(left, right, total, precision: tl.constexpr):
        return tl.dot(left, right, total, input_precision=precision)

    @triton.jit
    def mc_exp(x):
        return libdevice.exp(x)

    @triton.jit
    def mc_exp_below(x):
        """exp of a rounded difference, at most 0 (softmaxes.py); 0 where that is subnormal."""
        args = [x * 1.4426950408889634]
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", args, dtype=tl.float32, is_pure=True, pack=1
        )

    @triton.jit
    def mc_exp2(x):
        return libdevice.exp2(x)

    @triton.jit
    def mc_expm1(x):
        return libdevice.expm1(x)

    @triton.jit
    def mc_wide_log(x):
        return libdevice.log(x)

    @triton.jit
    def mc_fast_log2(x):
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)

    @triton.jit
    def mc_log2(x):
        return libdevice.log2(x)

    @triton.jit
    def mc_log10(x):
        return libdevice.log10(x)

    @triton.jit
    def mc_log1p(x):
        return libdevice.log1p(x)

    @triton.jit
    def mc_sin(x):
        return libdevice.sin(x)

    @triton.jit
    def mc_cos(x):
        return libdevice.cos(x)

    @triton.jit
    def mc_tan(x):
        return libdevice.tan(x)

    @triton.jit
    def mc_asin(x):
        return libdevice.asin(x)

    @triton.jit
    def mc_acos(x):
        return libdevice.acos(x)

    @triton.jit
    def mc_atan(x):
        return libdevice.atan(x)

    @triton.jit
    def mc_atan2(x, y):
        x, y = tl.broadcast(x, y)
        return libdevice.atan2(x, y)

    @triton.jit
    def mc_sinh(x):
        return libdevice.sinh(x)

    @triton.jit
    def mc_cosh(x):
        return libdevice.cosh(x)

    @triton.jit
    def mc_tanh(x):
        return libdevice.tanh(x)

    @triton.jit
    def mc_asinh(x):
        return libdevice.asinh(x)

    @triton.jit
    def mc_acosh(x):
        return libdevice.acosh(x)

    @triton.jit
    def mc_atanh(x):
        return libdevice.atanh(x)

    @triton.jit
    def mc_erf(x):
        return libdevice.erf(x)

    @triton.jit
    def mc_erfc(x):
        return libdevice.erfc(x)

    @triton.jit
    def mc_round(x):
        return libdevice.rint(x)

    @triton.jit
    def mc_copysign(x, y):
        x, y = tl.broadcast(x, y)
        return libdevice.copysign(x, y)

    @triton.jit
    def mc_float_fmod(x, y):
        x, y = tl.broadcast(x, y)
        return libdevice.fmod(x, y)

    @triton.jit
    def mc_float_pow(x, y):
        x, y = tl.broadcast(x, y)
        return libdevice.pow(x, y)
