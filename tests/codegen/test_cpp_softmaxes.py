"""Sums of exponentials, and maximum and sum in one pass: right at every length, infinity and NaN, rescaled as often as
need be, in every instruction set; used where they may be."""

from __future__ import annotations

import ctypes
import math
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp, cpp_blocks
from minicompile.codegen.cpp_softmaxes import BLOCK, SHORTEST
from minicompile.runtime.compiler import BUILD
from minicompile.runtime.cpu import simd_name

inf, nan = math.inf, math.nan

LENGTHS = [SHORTEST + 3, SHORTEST + 4, SHORTEST, 1023, BLOCK, BLOCK + 1, BLOCK + 16, BLOCK + 79, 3 * BLOCK - 1]


def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two reductions themselves, and a mean of what is summed."""
    top = x.amax(-1, keepdim=True)
    return (x - top).exp().sum(-1), top, (x - top).exp().mean(-1)


FORMS: list[Callable[[Tensor], object]] = [
    lambda x: torch.logsumexp(x, -1), lambda x: torch.log_softmax(x, -1), parts,
    lambda x: torch.logsumexp(x * 0.5 + 1, -1), lambda x: torch.logsumexp(x.masked_fill(x > 2, -inf), -1),
    lambda x: torch.logsumexp(x[..., 3:], -1), lambda x: torch.logsumexp(x.flip(-1), -1),
]  # fmt: skip


def scores(x: Tensor) -> Tensor:
    return torch.softmax(x.masked_fill(x > 2, -inf), -1)


SUMS: list[Callable[[Tensor], object]] = [
    lambda x: torch.softmax(x, -1), scores, lambda x: torch.softmax(x * 0.5 + 1, -1), lambda x: x.exp().sum(-1),
    lambda x: torch.softmax(x[..., 3:], -1), lambda x: (x.clamp(max=9) - x[..., :1]).exp().sum(-1),
    lambda x: (torch.softmax(x, -1) * torch.log(torch.softmax(x, -1) + 1e-8)).sum(-1),
]  # fmt: skip


def uses_sums(compiled: minicompile.Compiled[..., object]) -> bool:
    return any("mc_exp_sum<" in graph.compiled.native_source for graph in compiled.entries[-1].graphs)


@pytest.mark.parametrize("fn", SUMS)
def test_sums_of_every_length(fn: Callable[[Tensor], object]) -> None:
    compiled = minicompile.compile(fn)
    for length in [67, 68, 64, 79, 80, 127, 511, 2047, 2048, 2049, 4200, 9000]:
        torch.manual_seed(length)
        x = torch.randn(3, length) * 4
        torch.testing.assert_close(compiled(x), fn(x), rtol=4e-6, atol=2e-6)
    assert uses_sums(compiled) == (simd_name() in cpp_blocks.VECTORS) and len(compiled.entries) == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", SUMS)
@pytest.mark.parametrize("length", [65, 100, 2100])
def test_sums_of_infinities_and_nan(length: int, fn: Callable[[Tensor], object], dynamic: bool) -> None:
    x = torch.randn(12, length)
    x[0], x[1], x[2, :64], x[3, 64:] = -inf, inf, -inf, -inf
    for row, (place, value) in enumerate([(0, inf), (-1, inf), (9, nan), (-1, nan), (5, -inf), (-1, -inf)], 4):
        x[row, place] = value
    x[10], x[11] = x[10] * 50, x[11] * 1e-30
    torch.testing.assert_close(minicompile.compile(fn, dynamic=dynamic)(x), fn(x), rtol=4e-6, atol=2e-6, equal_nan=True)


def test_a_share_is_rounded_once(tmp_path: Path) -> None:
    """A softmax's quotients are those of a division."""
    text, library = tmp_path / "share.cpp", tmp_path / "share.so"
    text.write_text(cpp.translation_unit(["""
extern "C" void shares(const float *x, float sum, float *y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = mc_share(x[i], sum, 1.0f / sum);
}"""]))
    subprocess.run(["g++", *BUILD, str(text), "-o", str(library)], check=True)
    shares = ctypes.CDLL(str(library)).shares
    shares.argtypes = (ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, ctypes.c_int64)
    x = torch.cat([torch.rand(5000), torch.rand(5000).pow(20), torch.tensor([0.0, 1.0, 2**-100, nan])])
    for sum in [1.0, 1 + 2**-23, 2 - 2**-23, 3.0, 4095.999, *(1 + 999 * torch.rand(40)).tolist(), nan]:
        y = torch.empty_like(x)
        shares(x.data_ptr(), sum, y.data_ptr(), len(x))
        assert torch.equal(y.nan_to_num(2), (x / torch.tensor(sum)).nan_to_num(2)), sum


def uses_it(compiled: minicompile.Compiled[..., object]) -> bool:
    return any("mc_online_block(" in graph.compiled.native_source for graph in compiled.entries[-1].graphs)


@pytest.mark.parametrize("fn", FORMS)
def test_every_length(fn: Callable[[Tensor], object]) -> None:
    """The first call is compiled for its length alone, the second for all."""
    compiled = minicompile.compile(fn)
    for length in LENGTHS:
        torch.manual_seed(length)
        x = torch.randn(3, length) * 4
        torch.testing.assert_close(compiled(x), fn(x), rtol=2e-6, atol=2e-6)
    assert uses_it(compiled) and len(compiled.entries) == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", FORMS)
def test_infinities_and_nan(fn: Callable[[Tensor], object], dynamic: bool) -> None:
    """At either end and in the middle of a row, alone and beside each other; whole rows and whole blocks of them."""
    torch.manual_seed(0)
    x = torch.randn(16, 5000)
    x[0], x[1], x[2, :BLOCK], x[3, BLOCK:] = -inf, inf, -inf, -inf
    for row, (place, value) in enumerate([(0, inf), (4999, inf), (2500, inf), (0, nan), (4999, nan), (2500, -inf)], 4):
        x[row, place] = value
    x[10, :BLOCK], x[10, 2500] = -inf, nan
    x[11, 5], x[11, 2500] = nan, inf
    x[12, 5], x[12, 2500] = inf, nan
    x[13], x[13, 4999] = -inf, nan
    x[14], x[14, BLOCK] = -inf, 3.0
    x[15] = 3e38
    torch.testing.assert_close(minicompile.compile(fn, dynamic=dynamic)(x), fn(x), rtol=2e-6, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("step", [1e-3, 1.0, 50.0, -1e-3, -1.0])
def test_rising_rows_lose_nothing(step: float) -> None:
    """Each block has a greater maximum than all before it. No farther from float64 than eager, or than its last bit."""
    x = (torch.arange(40 * BLOCK) * (step / 64)).repeat(2, 1) + torch.rand(2, 1)
    wide = torch.logsumexp(x.double(), -1)
    ours, eagers = ((result.double() - wide).abs().max() for result in (minicompile.compile(FORMS[0])(x), FORMS[0](x)))
    assert ours <= max(float(eagers), float(wide.abs().max()) * 2**-23)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4300).to(dtype)
    compiled = minicompile.compile(lambda x: torch.logsumexp(x, -1))
    torch.testing.assert_close(compiled(x), torch.logsumexp(x, -1))
    assert uses_it(compiled) == (dtype is not torch.float64)


@pytest.mark.parametrize("fn", [
    lambda x: torch.logsumexp(x, (-2, -1)), lambda x: torch.logsumexp(x, (0, 1, 2)), lambda x: F.log_softmax(x, 0),
    lambda x: torch.logsumexp(x.transpose(0, 1), -1), lambda x: torch.logsumexp(x[:, :1].expand(4, 5, 2100), -1),
])  # fmt: skip
def test_several_axes_and_strides(fn: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 5, 2100)
    torch.testing.assert_close(minicompile.compile(fn)(x), fn(x), rtol=2e-6, atol=2e-6)


def test_one_long_row_is_joined_from_its_threads_parts() -> None:
    x = torch.randn(300_001)
    for value in (None, inf, -inf, nan):
        if value is not None:
            x[200_000] = value
        compiled = minicompile.compile(lambda x: (torch.logsumexp(x, 0), x.amax(0)), dynamic=False)
        torch.testing.assert_close(compiled(x), (torch.logsumexp(x, 0), x.amax(0)), equal_nan=True)
        loss = minicompile.compile(lambda x: torch.logsumexp(x, 0))
        torch.testing.assert_close(loss(x), torch.logsumexp(x, 0), equal_nan=True)
        assert uses_it(loss) and "mc_online_join(" in loss.entries[0].graphs[0].compiled.native_source


def test_cross_entropy_and_its_gradient() -> None:
    logits, target = torch.randn(6, 5000, requires_grad=True), torch.tensor([0, 4999, 2048, -100, 7, 8])
    compiled = minicompile.compile(F.cross_entropy)
    ours, eagers = compiled(logits, target), F.cross_entropy(logits, target)
    torch.testing.assert_close(ours, eagers)
    torch.testing.assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(eagers, logits))


@pytest.mark.parametrize("fn, length", [
    (lambda x: torch.logsumexp(x, -1), SHORTEST - 1),
    (lambda x: torch.softmax(x, -1), 2000),  # stores the exponentials, which are kept
    (lambda x: torch.logsumexp(x, 0), 2000),  # across the rows
    (lambda x: torch.logsumexp(x.tanh(), -1), 2000),  # in blocks of its own
    (lambda x: ((x - x.amax(-1, keepdim=True)).exp() * x).sum(-1), 2000),
    (lambda x: (x - x.amin(-1, keepdim=True)).exp().sum(-1), 2000),
])  # fmt: skip
def test_not_for_others(fn: Callable[[Tensor], Tensor], length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_blocks, "simd_name", lambda: "avx512")  # others have no block function for tanh
    x = torch.rand(3, length)
    compiled = minicompile.compile(fn)
    torch.testing.assert_close(compiled(x), fn(x), rtol=1e-5, atol=1e-5)
    assert not uses_it(compiled)


@pytest.mark.parametrize("flags", [(), ("-march=x86-64",), ("-mavx2", "-mfma")], ids=str)
def test_blocks_in_every_instruction_set(flags: tuple[str, ...], tmp_path: Path) -> None:
    if flags and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()} has no {flags}")
    text, library = tmp_path / "online.cpp", tmp_path / "online.so"
    text.write_text(cpp.translation_unit(["""
extern "C" double block(const float *x, int64_t n, int64_t step) {
  mc_Online found;
  for (int64_t i = 0; i < n; i += step)
    mc_online_block(found, x + i, i + step < n ? step : n - i, [](int64_t) {});
  return mc_online_top(found) + mc_log(mc_online_sum(found, false));
}"""]))
    subprocess.run(["g++", *BUILD, *flags, str(text), "-o", str(library)], check=True)
    block = ctypes.CDLL(str(library)).block
    block.argtypes, block.restype = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64), ctypes.c_double
    for length in (1, 15, 16, 17, 63, 64, 65, 79, 80, 200):
        x = torch.randn(length) * 5
        for step in (length, 16, 7):
            assert abs(block(x.data_ptr(), length, step) - float(torch.logsumexp(x.double(), 0))) < 1e-6
        x[length // 2] = nan
        assert math.isnan(block(x.data_ptr(), length, 7))
