"""Matrix products as C++ kernels of ours, with what reads them: right at every edge of a tile and a block, as exact as
MKL's, of the same sums with any number of threads; and calls where nothing is gained."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile import config
from minicompile.codegen import cpp, cpp_product_choice
from minicompile.runtime import cpu
from minicompile.runtime.compiler import BUILD

from ..support import assert_same


@pytest.fixture(autouse=True)
def all_products(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small ones too, on any processor."""
    monkeypatch.setattr(cpp_product_choice, "WORK", 0)
    monkeypatch.setattr(cpp_product_choice, "FEWEST", 1)
    with config.patch(own_products=True, strict=True, entry_cache=False):
        yield


def matrix(*shape: int) -> Tensor:
    """Random numbers, small enough that products of two are around 1."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) / max(shape) ** 0.25


def compiled_like_eager(fn: Callable[..., Any], *args: Tensor) -> tuple[list[str], list[str]]:
    """Compiled, it gives what eager gives; returns the kinds of its kernels, and the calls beside them."""
    compiled = minicompile.compile(fn, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(*args), fn(*args))
    (graph,) = [graph.compiled for entry in compiled.entries for graph in entry.graphs]
    return [kernel.kind for kernel in graph.kernels], graph.externs


SIZES = [(1, 3, 2), (6, 16, 8), (7, 17, 9), (13, 33, 200), (14, 32, 192), (119, 129, 193), (121, 127, 385),
         (250, 300, 40)]  # fmt: skip
FACTORS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "plain": (lambda x: x, lambda w: w),
    "transposed": (lambda x: x.t(), lambda w: w.t()),
    "parts": (lambda x: x[:, 1:-2], lambda w: w[3:, 2:]),
}


@pytest.mark.parametrize("how, size", [
    *(("plain", size) for size in SIZES), *((how, size) for how in ("transposed", "parts") for size in SIZES[2::2]),
], ids=str)  # fmt: skip
def test_every_edge(how: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    left, right = FACTORS[how]
    x, w = {
        "plain": (matrix(m, k), matrix(k, n)),
        "transposed": (matrix(k, m), matrix(n, k)),
        "parts": (matrix(m, k + 3), matrix(k + 3, n + 2)),
    }[how]
    assert compiled_like_eager(lambda x, w: left(x) @ right(w), x, w) == (["product"], [])


EPILOGUES: dict[str, Callable[..., Any]] = {
    "bias": lambda x, w, b, r: F.linear(x, w, b),
    "bias of rows": lambda x, w, b, r: torch.addmm(r[:, :1], x, w.t()),
    "bias, gelu, residual": lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
    "bias, silu": lambda x, w, b, r: F.silu(F.linear(x, w, b)),
    "bias, sin": lambda x, w, b, r: F.linear(x, w, b).sin() * r,
    "heads": lambda x, w, b, r: F.linear(x.unflatten(0, (5, 26)), w, b).unflatten(2, (3, 40)).transpose(1, 2) * 2,
    "batches": lambda x, w, b, r: F.linear(x.unflatten(0, (5, 26)), w, b) + r[:26],
    "places": lambda x, w, b, r: (x @ w.t()).tril(3) + r.triu(),
    "of a number": lambda x, w, b, r: (x @ w.t()) * r[3, 4] - 1,
    "to another dtype": lambda x, w, b, r: (x @ w.t() > 0, (x @ w.t()).bfloat16()),
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str) -> None:
    args = matrix(130, 70), matrix(120, 70), matrix(120), matrix(130, 120)
    assert compiled_like_eager(EPILOGUES[name], *args)[0] == ["product"]


BESIDE: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a reduction": (lambda x, w: (x @ w).softmax(1), ["product", "reduction"]),
    "the product itself too": (lambda x, w: ((y := x @ w), y.relu()), ["product"]),
    "a transposed store": (lambda x, w: (x @ w).relu().t().contiguous(), ["product", "pointwise"]),
    "a function of MKL's": (lambda x, w: (x @ w).atan(), ["product", "pointwise"]),
    "a chain": (lambda x, w: (x @ w).relu() @ w.t(), ["product", "product"]),
    "both factors": (lambda x, w: (x @ x.t()) + x @ x.t(), ["product"]),
    "its own factor": (lambda x, w: x[:, :70] @ x[:70, :70] + x[:, :70], ["product"]),
}


@pytest.mark.parametrize("name", BESIDE)
def test_neighbours(name: str) -> None:
    fn, kinds = BESIDE[name]
    assert compiled_like_eager(fn, matrix(130, 70), matrix(70, 90)) == (kinds, [])


def test_a_factor_that_dies_is_not_overwritten() -> None:
    """The result has the size of a factor that nobody needs afterwards; each of its elements is read for many."""
    x, w = matrix(96, 96), matrix(96, 96)
    kinds, _ = compiled_like_eager(lambda x, w: ((x * 2) @ (w + 1)).relu() @ w, x, w)
    assert kinds.count("product") == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_other_dtypes_are_calls(dtype: torch.dtype) -> None:
    assert compiled_like_eager(lambda x, w: x @ w, matrix(64, 64).to(dtype), matrix(64, 64).to(dtype))[0] == []


def test_batches_are_calls() -> None:
    assert compiled_like_eager(lambda x, w: x @ w, matrix(2, 64, 64), matrix(2, 64, 64))[0] == []


ROWS: dict[str, Callable[..., Any]] = {
    "plain": lambda x, w, b: x @ w.t(),
    "rows by columns": lambda x, w, b: w @ x.t(),
    "bias, gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "batches": lambda x, w, b: F.linear(torch.stack([x, x + 1]), w, b) * b,
    "heads": lambda x, w, b: F.linear(torch.stack([x, x + 1, x]), w, b).unflatten(2, (3, 40)).transpose(1, 2) * 2,
}


@pytest.mark.parametrize("name", ROWS)
def test_any_number_of_rows(name: str) -> None:
    """One kernel for all numbers of rows; a right factor of sizes that are not known is a call's."""
    fn, w, b = ROWS[name], matrix(120, 70), matrix(120)
    compiled = minicompile.compile(fn, fullgraph=True)
    for rows in (40, 2, 133, 1000):
        x = matrix(rows, 70)
        torch._dynamo.mark_dynamic(x, 0)
        assert_same(compiled(x, w, b), fn(x, w, b))
    (graph,) = [graph.compiled for entry in compiled.entries for graph in entry.graphs]
    kinds = [kernel.kind for kernel in graph.kernels]
    assert kinds.count("product") == (name != "rows by columns") and bool(graph.externs) == (name == "rows by columns")


def test_special_values() -> None:
    x, w = matrix(40, 70), matrix(70, 50)
    x[3, 5], x[7, 69], w[2, 49] = torch.inf, torch.nan, -torch.inf
    compiled_like_eager(lambda x, w: x @ w, x, w)


def test_as_exact_as_eager_s() -> None:
    x, w = matrix(128, 3072), matrix(3072, 256)
    exact = x.double() @ w.double()
    error = (minicompile.compile(lambda x, w: x @ w)(x, w) - exact).abs().max()
    assert error <= 1.5 * (x @ w - exact).abs().max()


@pytest.mark.parametrize("size", [(130, 90, 700), (40, 1000, 300), (1000, 30, 200)], ids=str)
def test_the_same_sums_with_any_number_of_threads(size: tuple[int, int, int]) -> None:
    m, n, k = size
    x, w = matrix(m, k), matrix(n, k)
    compiled, before, found = minicompile.compile(lambda x, w: F.linear(x, w)), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(compiled(x, w))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found)


def test_gradients() -> None:
    linear = torch.nn.Linear(70, 90)
    x = matrix(130, 70)
    eager = torch.autograd.grad(F.gelu(linear(x)).square().sum(), list(linear.parameters()))
    compiled = minicompile.compile(lambda x: F.gelu(linear(x)).square().sum(), fullgraph=True)
    assert_same(torch.autograd.grad(compiled(x), list(linear.parameters())), eager)


# --- when -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked, vendor, simd, ours", [
    (None, "AuthenticAMD", "avx2", True), (None, "AuthenticAMD", "avx512", False), (None, "", "neon", False),
    (None, "GenuineIntel", "avx2", False), (True, "GenuineIntel", "avx512", True),
    (False, "AuthenticAMD", "avx2", False),
])  # fmt: skip
def test_where_they_are_faster(
    asked: bool | None, vendor: str, simd: str, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_product_choice, "vendor", lambda: vendor)
    monkeypatch.setattr(cpp_product_choice, "simd_name", lambda: simd)
    with config.patch(own_products=asked):
        kinds, _ = compiled_like_eager(lambda x, w: x @ w, matrix(30, 20), matrix(20, 10))
    assert kinds == ["product"] * ours


@pytest.mark.parametrize("size, ours", [
    ((64, 64, 64), 0), ((7, 1024, 1024), 0), ((256, 256, 256), 0), ((16, 768, 768), 1), ((512, 512, 512), 1),
], ids=str)  # fmt: skip
def test_small_products_are_calls(size: tuple[int, int, int], ours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    m, n, k = size
    kinds, _ = compiled_like_eager(lambda x, w: x @ w, matrix(m, k) / 8, matrix(k, n))
    assert len(kinds) == ours


def test_eager_s_rounding_means_eager_s_products() -> None:
    with config.patch(exact=True):
        assert compiled_like_eager(lambda x, w: x @ w, matrix(30, 20), matrix(20, 10))[0] == []


# --- instruction sets -----------------------------------------------------------------------------------------------

TEXT = """
extern "C" int product(const float *x, const float *w, float *y, int64_t m, int64_t n, int64_t k) {
  return mc_product(m, n, k, mc_Factor{x, k, 1}, mc_Factor{w, 1, n},
    [=](int64_t row, int64_t rows, int64_t column, int64_t columns, const float *block) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) y[(row + i) * n + column + j] = block[i * MC_BLOCK_WIDE + j];
    });
}"""
SETS = {"native": (), "avx512": ("-march=skylake-avx512",), "avx2": ("-mavx2", "-mfma"), "sse2": ("-march=x86-64",)}


@pytest.mark.parametrize("simd", SETS)
def test_in_every_instruction_set(simd: str, tmp_path: Path) -> None:
    """One that this processor lacks is built only."""
    if simd != "native" and platform.machine() != "x86_64":
        pytest.skip(f"{platform.machine()} has no {simd}")
    (tmp_path / "product.cpp").write_text(cpp.translation_unit([TEXT]))
    library = tmp_path / "product.so"
    subprocess.run(["g++", *BUILD, *SETS[simd], str(tmp_path / "product.cpp"), "-o", str(library)], check=True)
    if not dict(cpu.LEVELS).get(simd, set()) <= cpu.features():
        return
    run = ctypes.CDLL(str(library)).product
    run.argtypes = (ctypes.c_void_p,) * 3 + (ctypes.c_int64,) * 3
    for m, n, k in [*SIZES, (300, 500, 700)]:
        x, w, y = matrix(m, k), matrix(k, n), torch.full((m * n + 1,), 7.0)
        assert run(x.data_ptr(), w.data_ptr(), y.data_ptr(), m, n, k) == 0
        torch.testing.assert_close(y[:-1].view(m, n), x @ w, rtol=1e-5, atol=1e-4)
        assert y[-1] == 7
