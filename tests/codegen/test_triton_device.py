"""Triton kernels on a real GPU: whole graphs through `compile_ir`, against the reference on the same device."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
import torch

from minicompile.codegen import compile_ir
from minicompile.ir.graph import Graph
from minicompile.ir.ops import POINTWISE
from minicompile.ir.reference import run
from minicompile.ir.types import dtype_kind

from .build import B, entropy, gelu, layer_norm, softmax, tensor_type
from .test_cpp_pointwise import FLOATS, INTS, rows_for, second, values

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

CUDA = torch.device("cuda", 0)


class G(B):
    """A builder whose inputs lie on the GPU."""

    def input(self, *shape: Any, **more: Any) -> Any:
        return super().input(*shape, **{"device": CUDA, **more})

    def full(self, value: Any, *shape: Any, dtype: torch.dtype = torch.float32) -> Any:
        return self.builder.add("full", (value,), tensor_type(shape, dtype, device=CUDA))

    def iota(self, dim: int, *shape: Any) -> Any:
        return self.builder.add("iota", (), tensor_type(shape, torch.int64, device=CUDA), dim=dim)


def check(graph: Graph, *inputs: Any, tolerance: float = 1e-5) -> None:
    compiled = compile_ir(graph)
    for got, want in zip(compiled(*inputs), run(graph, *inputs), strict=True):
        assert got.device == want.device and got.dtype == want.dtype and got.stride() == want.stride()
        assert torch.allclose(got.double(), want.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=CUDA)


def test_scorers_and_norms() -> None:
    b = G()
    check(b.finish(entropy(b, b.input(32, 196, 768))), randn(32, 196, 768))
    b = G()
    check(b.finish(softmax(b, b.input(37, 50001))), randn(37, 50001))
    b = G()
    graph = b.finish(gelu(b, layer_norm(b, b.input(512, 768), b.input(768), b.input(768))))
    check(graph, randn(512, 768), randn(768), randn(768))


def test_columns_and_full_reductions() -> None:
    b = G()
    x = b.input(65, 33, 70)
    check(b.finish(b.sum(x, 0), b.sum(x, 1), b.amax(x, 0, 2), b.sum(x, 0, 1, 2)), randn(65, 33, 70), tolerance=1e-3)


def test_rows_and_columns_without_elements() -> None:
    b = G()
    x, y = b.input(0, 4), b.input(5, 0, dtype=torch.int32)
    graph = b.finish(b.sum(x, 0), b.prod(x, 0), b.sum(y, 1), b.prod(y, 1), b.sum(x, 0, 1))
    check(graph, randn(0, 4), torch.empty(5, 0, dtype=torch.int32, device=CUDA))


def test_the_sign_of_a_zero_is_turned() -> None:
    b = G()
    (got,) = compile_ir(b.finish(b.neg(b.input(3))))(torch.tensor([0.0, -0.0, 1.0], device=CUDA))
    assert got.signbit().tolist() == [True, False, True]


def test_masks_views_and_externs() -> None:
    b = G()
    x, w = b.input(64, 64), b.input(64, 48)
    mask = b.le(b.iota(1, 64, 64), b.iota(0, 64, 64))
    p = softmax(b, b.where(mask, b.permute(x, 1, 0), float("-inf")))
    product = b.extern(torch.ops.aten.mm.default, p, w, type=tensor_type((64, 48), device=CUDA))
    check(b.finish(b.relu(product)), randn(64, 64), randn(64, 48), tolerance=1e-3)


def test_one_build_serves_several_sizes() -> None:
    size = sympy.Symbol("s0", integer=True, positive=True)
    b = G()
    compiled = compile_ir(b.finish(entropy(b, b.input(size, 96)), symbols={"s0": 8}))
    for n in (2, 7, 300):
        data = randn(n, 96)
        p = data.softmax(-1)
        assert torch.allclose(compiled(data)[0], -(p * torch.log(p + 1e-8)).sum(-1), atol=1e-5)


def operands(op: str, arity: int, xs: list[Any]) -> list[Any]:
    """The first ones; `where` takes the flags, which stand last, before them."""
    return [xs[2], *xs[:2]] if op == "where" else xs[:arity]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_every_row_equals_torch(dtype: torch.dtype) -> None:
    kind = dtype_kind(dtype)
    x = values(dtype)
    y, flag = second(x), torch.arange(len(x)) % 3 == 0
    if kind == "i":
        y = torch.where((y == 0) | (y == -1), torch.full_like(y, 3), y)
    b = G()
    nodes = [b.input(len(t), dtype=t.dtype) for t in (x, y, flag)]
    rows = [row for row in rows_for(dtype) if row.triton is not None and not (kind == "i" and row.name == "pow")]
    outputs = [getattr(b, row.name)(*operands(row.name, row.arity, nodes)) for row in rows]
    data = [t.to(CUDA) for t in (x, y, flag)]
    results = compile_ir(b.finish(*outputs))(*data)
    wide = [t.float() if dtype in (torch.bfloat16, torch.float16) and t.dtype == dtype else t for t in data]
    for row, got in zip(rows, results, strict=True):
        want = POINTWISE[row.name].torch(*operands(row.name, row.arity, wide)).to(got.dtype)
        tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}.get(dtype, 1e-2)
        close = torch.isclose(got, want, rtol=tolerance, atol=1e-37 if kind == "f" else 0, equal_nan=True)
        bad = (~close).nonzero().flatten()[:5]
        assert not len(bad), f"{row.name}: {data[0][bad]}, {data[1][bad]} gave {got[bad]}, eager {want[bad]}"


def special_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of zeros, subnormals, the smallest and the largest numbers, some between, infinities and NaN."""
    info = torch.finfo(dtype)
    smallest = info.tiny * info.eps
    sizes = [0, smallest, 3 * smallest, info.tiny / 8, info.tiny / 3, info.tiny - smallest, info.tiny, 2.5 * info.tiny,
             info.eps, 1e-3, 0.3, 0.5, 1, 1.5, 2, 2.5, 3, 7, 88.7, 103, 1e4, info.max / 2, info.max, math.inf]
    numbers = torch.tensor([*sizes, *(-size for size in sizes), math.nan], dtype=torch.float64).to(dtype)
    x, y = torch.meshgrid(numbers, numbers, indexing="ij")
    return x.flatten(), y.flatten()


ROUNDED_BETWEEN = {"nextafter", "trunc_divide"}
"""What lowering gives float32 operands, or eager rounds in between."""


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values_are_eager_s(dtype: torch.dtype) -> None:
    """Subnormals, which a GPU may take for zeros; the signs of zeros."""
    x, y = special_pairs(dtype)
    data = [x.to(CUDA), y.to(CUDA), (torch.arange(len(x)) % 3 == 0).to(CUDA)]
    b = G()
    nodes = [b.input(len(t), dtype=t.dtype) for t in data]
    is_half = dtype in (torch.bfloat16, torch.float16)
    rows = [row for row in rows_for(dtype) if row.triton is not None and not (is_half and row.name in ROUNDED_BETWEEN)]
    results = compile_ir(b.finish(*(getattr(b, r.name)(*operands(r.name, r.arity, nodes)) for r in rows)))(*data)
    tolerance = {torch.float32: 3e-6, torch.float64: 1e-14, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    smallest = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    for row, got in zip(rows, results, strict=True):
        want = POINTWISE[row.name].torch(*operands(row.name, row.arity, data))
        close = torch.isclose(got.double(), want.double(), rtol=tolerance, atol=4 * smallest, equal_nan=True)
        same_sign = (got.signbit() == want.signbit()) | (got != 0) | (want != 0)
        bad = (~(close & same_sign)).nonzero().flatten()[:5]
        assert not len(bad), f"{row.name}: {data[0][bad]}, {data[1][bad]} gave {got[bad]}, eager {want[bad]}"
