"""Loops in registers: right at every length and place, used for what is of vectors alone, as exact as blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp_blocks, cpp_vectors
from minicompile.runtime.cpu import simd_name

FORMS: list[Callable[[Tensor, Tensor], object]] = [
    lambda x, y: F.gelu(F.layer_norm(x, x.shape[-1:])), lambda x, y: F.silu(x) * y, lambda x, y: F.gelu(x + y) - x,
    lambda x, y: (torch.tanh(x) * y, x / (y + 9)), lambda x, y: torch.exp(-x) - torch.log(y * y + 1),
    lambda x, y: torch.sigmoid(x.flip(0)) * y - x, lambda x, y: torch.exp(x) * y[:, :1],
]  # fmt: skip


def uses_vectors(compiled: minicompile.Compiled[..., object]) -> bool:
    return any("const auto vector = " in graph.compiled.native_source for graph in compiled.entries[-1].graphs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", FORMS)
def test_every_length(fn: Callable[[Tensor, Tensor], object], dynamic: bool) -> None:
    compiled = minicompile.compile(fn, dynamic=dynamic)
    for length in (64, 80, 81, 255, 256, 271, 768, 4097):
        torch.manual_seed(length)
        x, y = torch.randn(3, length), torch.randn(3, length)
        torch.testing.assert_close(compiled(x, y), fn(x, y), rtol=2e-6, atol=2e-6)
        assert uses_vectors(compiled) == (simd_name() in cpp_blocks.VECTORS)


def test_large_results_and_nothing_beyond_the_last_element() -> None:
    """Stored past the caches as well; the elements around a slice stay what they are."""
    x, y = torch.randn(1100, 8192), torch.randn(8192)
    compiled = minicompile.compile(lambda x, y: F.silu(x + y) * y)
    torch.testing.assert_close(compiled(x, y), F.silu(x + y) * y, rtol=2e-6, atol=1e-5)
    assert uses_vectors(compiled) == (simd_name() in cpp_blocks.VECTORS)
    around = torch.full((4, 100), 7.0)

    def write(part: Tensor, x: Tensor) -> None:
        part.copy_(torch.exp(x) * 0.5 + x)

    minicompile.compile(write)(around[1:3, 3:90], x[:2, :87])
    wanted = torch.full((4, 100), 7.0)
    write(wanted[1:3, 3:90], x[:2, :87])
    torch.testing.assert_close(around, wanted)


def test_an_input_overwritten_by_what_is_computed_from_it() -> None:
    def grow(x: Tensor) -> None:
        x.copy_(torch.tanh(x) * x + 1)

    x = torch.randn(5, 333)
    wanted = x.clone()
    grow(wanted)
    minicompile.compile(grow)(x)
    torch.testing.assert_close(x, wanted, rtol=2e-6, atol=2e-6)


def test_infinities_and_nan() -> None:
    x = torch.randn(2, 100)
    x[0, :6] = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e18, -1e18, 1e-45])
    for fn in FORMS[1:]:
        torch.testing.assert_close(minicompile.compile(fn)(x, x), fn(x, x), rtol=2e-6, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("fn", [
    lambda x, y: torch.exp(x) + torch.relu(y), lambda x, y: torch.exp(x),
    lambda x, y: torch.exp(x.double()).float() + y, lambda x, y: (torch.exp(x) * y).sum(-1),
    lambda x, y: torch.exp(x) + torch.tan(y), lambda x, y: torch.exp(x) * y.t(),
])  # fmt: skip
def test_not_for_others(fn: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, y = torch.rand(160, 160), torch.rand(160, 160)
    compiled = minicompile.compile(fn)
    torch.testing.assert_close(compiled(x, y), fn(x, y), rtol=1e-5, atol=1e-5)
    assert not uses_vectors(compiled)


def test_two_tables_do_not_fit_the_registers() -> None:
    """AVX2 has polynomials in their place."""
    x = torch.randn(160, 160)
    compiled = minicompile.compile(lambda x: torch.tanh(x) * torch.erf(x))
    torch.testing.assert_close(compiled(x), torch.tanh(x) * torch.erf(x), rtol=2e-6, atol=2e-6)
    assert uses_vectors(compiled) == (simd_name() == "avx2")


def test_block_by_block_where_there_are_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other compilers build from the same text."""
    x, y = torch.randn(3, 5000), torch.randn(3, 5000)
    for fn in FORMS[:4]:
        with monkeypatch.context() as patch:
            patch.setattr(cpp_vectors, "is_for", lambda axis, loop: False)
            plain = minicompile.compile(lambda x, y, fn=fn: fn(x, y))
            wanted = plain(x, y)
            assert not uses_vectors(plain)
        torch.testing.assert_close(minicompile.compile(fn)(x, y), wanted, rtol=1e-6, atol=1e-6)
    assert cpp_blocks.BLOCK % cpp_vectors.WIDTH == 0, "a block ends with a vector"
