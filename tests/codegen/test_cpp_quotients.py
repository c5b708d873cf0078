"""Remainders and floor divisions of floats: a fast form for small quotients, exact for all.

Eager's vectorised form is NaN for some quotients that overflow: what is repeated here is its exact scalar one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minicompile

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fmod": lambda x, y: torch.fmod(x, y), "remainder": lambda x, y: x % y, "floor": lambda x, y: x // y,
    "sum": lambda x, y: torch.remainder(x, y).sum(-1), "hypot": lambda x, y: torch.hypot(x, y),
    "clamp": lambda x, y: torch.clamp(x, y - 1, y + 1),
    "clamp again": lambda x, y: x.maximum(y).minimum(x + 1).maximum(-y),
}  # fmt: skip

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 7.5, -7.5, 1e-40, -1e-45, 1.17549435e-38, 3.4e38, -3.4e38, 1e20, -1e20,
           16777216.0, 16777217.0, 536870912.0, 1073741824.0, math.inf, -math.inf, math.nan]  # fmt: skip


def check(name: str, x: Tensor, y: Tensor, want: Tensor | None = None) -> None:
    compiled = minicompile.compile(FUNCTIONS[name], dynamic=False)
    got = compiled(x, y)
    assert compiled.entries[0].graphs[0].compiled.kernels
    want = FUNCTIONS[name](x, y) if want is None else want
    if name in ("sum", "hypot"):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=3e-7 if name == "hypot" else 1e-4, atol=1e-45)
        return
    same = (got == want) | got.isnan() & want.isnan()
    if "clamp" not in name:  # of two zeros with different signs torch returns either
        same &= got.isnan() | (got.signbit() == want.signbit())
    assert bool(same.all()), [(a.item(), b.item(), g.item(), w.item()) for a, b, g, w in
                              zip(x[~same][:5], y[~same][:5], got[~same][:5], want[~same][:5], strict=True)]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "sum"])
def test_special_values(name: str) -> None:
    """In one block each, and each in a block of its own: one that is far has the whole block computed again."""
    pairs = torch.tensor(list(itertools.product(SPECIAL, SPECIAL)))
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    want = torch.cat([FUNCTIONS[name](a, b) for a, b in zip(x.split(1), y.split(1), strict=True)])
    check(name, x, y, want)
    for i in range(0, len(pairs), 37):
        check(name, x[i].repeat(64), y[i].repeat(64), want[i].repeat(64))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e7, 1e12])
def test_random_quotients(name: str, scale: float) -> None:
    torch.manual_seed(int(scale) % 97)
    x, y = torch.randn(40, 5000) * scale, torch.randn(40, 5000)
    check(name, x, y)
    check(name, x, y.round().clamp(min=1))
    check(name, (y.round() * 3 * scale).round(), y.round().clamp(min=1) * 3)  # quotients that are whole, or nearly


def test_quotients_just_below_a_whole_number() -> None:
    """There the rounded quotient is one too large."""
    y = torch.rand(1 << 16) + 0.5
    n = torch.randint(1, 1 << 22, y.shape).float()
    x = (y.double() * n.double()).float()
    for near in (x, x.nextafter(torch.zeros(())), x.nextafter(torch.tensor(torch.inf))):
        for name in ("fmod", "remainder", "floor"):
            check(name, near, y)
            check(name, -near, y)
            check(name, near, -y)


def test_in_place_over_what_is_read() -> None:
    x, y = torch.randn(5000) * 1e12, torch.randn(5000)
    got, want = x.clone(), x.clone()
    minicompile.compile(lambda x, y: x.remainder_(y))(got, y)
    want.remainder_(y)
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.float64], ids=str)
def test_integers_over_constants(dtype: torch.dtype, wide: torch.dtype) -> None:
    """Without a division, rounded as one: all bytes and shorts, the ends of longer types, zeros with their signs."""
    torch.manual_seed(3)
    info = torch.iinfo(dtype)
    if info.bits <= 16:
        x = torch.arange(info.min, info.max + 1, dtype=dtype)
    else:
        ends = torch.tensor([info.min, info.max, 0, -1])
        x = torch.cat([ends, torch.randint(info.min, info.max, (30000,))]).to(dtype)
    divisors = [255.0, 3.0, -7.0, 0.1, 1e-5, 127.5, 2.0**-59 * 1.1, 1e17, *torch.randn(30).tolist()]
    compiled = minicompile.compile(lambda x: [x.to(wide) / divisor for divisor in divisors])
    got = compiled(x)
    assert compiled.entries[0].graphs[0].compiled.native_source.count("= mc_divide(") == len(divisors)
    for divisor, quotient in zip(divisors, got, strict=True):
        want = x.to(wide) / divisor
        assert torch.equal(quotient, want) and torch.equal(quotient.signbit(), want.signbit()), divisor


@pytest.mark.parametrize("divisor", [16777215.0, 2.0**-70, 2.0**70, math.inf, math.nan, 0.0], ids=str)
def test_divisors_that_need_a_division(divisor: float) -> None:
    """A mantissa of ones, and what may under- or overflow."""
    compiled = minicompile.compile(lambda x: x.float() / divisor)
    x = torch.arange(-4000, 4000)
    torch.testing.assert_close(compiled(x), x.float() / divisor, rtol=0, atol=0, equal_nan=True)
    assert "mc_divide" not in compiled.entries[0].graphs[0].compiled.native_source
