"""Kernels with masked and indirect loads, and scans: as text, and run in C++."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile import passes
from minicompile.codegen import compile_ir
from minicompile.codegen.compiled import CompiledGraph
from minicompile.errors import KernelError
from minicompile.lowering import lower

from ..lowering.support import captured, run_and_compare
from ..lowering.test_index_rules import ONE_TENSOR, grid


def compiled(function: Any, *inputs: torch.Tensor) -> CompiledGraph:
    return compile_ir(passes.run(lower(captured(function, *inputs), inputs)), backend="cpp")


def kernel(function: Any, *inputs: torch.Tensor) -> str:
    (only,) = compiled(function, *inputs).kernels
    return only.ir.split("\n", 1)[1]


@pytest.mark.parametrize("name", ONE_TENSOR)
def test_as_eager(name: str) -> None:
    for x in (grid(4, 6), grid(4, 6).t().contiguous().t()):
        run_and_compare(compiled(ONE_TENSOR[name], x), ONE_TENSOR[name], [x])


def test_a_pad_is_a_masked_load() -> None:
    assert kernel(lambda x: F.pad(x, (1, 0), value=2.0), grid(3, 4)) == (
        "  %0: i64 = index p1\n"
        "  %1: i64 = 1\n"
        "  %2: b1 = ge %0, %1\n"
        "  %3: f32 = in0[p0*4 + p1 + -1] if %2\n"
        "  %4: f32 = 2.0\n"
        "  %5: f32 = where %2, %3, %4\n"
        "  out0[p0*5 + p1] = %5"
    )


def test_a_flip_walks_backwards() -> None:
    assert kernel(lambda x: x.flip(0, 1) + 1, grid(3, 4)) == (
        "  %0: f32 = in0[p0*-1 + 11]\n  %1: f32 = 1.0\n  %2: f32 = add %0, %1\n  out0[p0] = %2"
    )


def test_a_window_is_a_plain_load() -> None:
    assert kernel(lambda x: x.unfold(1, 3, 2).sum(2), grid(4, 9)) == (
        "  %0: f32 = in0[p0*9 + p1*2 + r0]\n  %1: f32 = reduce sum %0\n  out0[p0*4 + p1] = %1"
    )


def test_an_embedding_checks_a_row_once() -> None:
    text = kernel(lambda i, x: F.embedding(i, x).relu(), torch.tensor([[1, 0]]), grid(4, 6))
    assert text == (
        "  %0: i64 = in0[p0]\n  %1: i64 = check %0 below 4\n  %2: f32 = in1[p1 + %1*6]\n"
        "  %3: f32 = relu %2\n  out0[p0*6 + p1] = %3"
    )


def test_scans_carry_a_double_as_eager_does() -> None:
    x = torch.full((2, 100_000), 0.1)
    run_and_compare(compiled(lambda x: x.cumsum(1), x), lambda x: x.cumsum(1), [x])
    assert torch.equal(compiled(lambda x: x.cumsum(1), x)(x)[0], x.cumsum(1))


@pytest.mark.parametrize("index", [4, -5, 1 << 40])
def test_a_wrong_index_stops_the_kernel(index: int) -> None:
    call = compiled(lambda x, i: x[i] + 1, grid(4, 6), torch.tensor([0, 1]))
    with pytest.raises(KernelError):
        call(grid(4, 6), torch.tensor([0, index]))


@pytest.mark.parametrize("index", [4, -1])
def test_the_user_sees_eagers_error(index: int) -> None:
    look_up = minicompile.compile(lambda x, i: F.embedding(i, x) * 2)
    assert torch.equal(look_up(grid(4, 6), torch.tensor([2])), grid(4, 6)[2:3] * 2)
    with pytest.raises(IndexError):
        look_up(grid(4, 6), torch.tensor([index]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_exact_rounding_is_eagers(dtype: torch.dtype) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        return ((x * 3.1 + 0.7) * x - x / 3) * 1.3

    x = torch.randn(1000).to(dtype)
    graph = passes.run(lower(captured(chain, x), [x]))
    exact = compile_ir(graph, backend="cpp", options={"exact_rounding": True})
    assert torch.equal(exact(x)[0], chain(x))
    assert not torch.equal(compile_ir(graph, backend="cpp")(x)[0], chain(x))  # fewer roundings, nearer to the truth


@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("whole", [torch.int32, torch.int64, torch.int8])
def test_the_zero_of_an_integer_has_no_sign(whole: torch.dtype, wide: torch.dtype) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.copysign(torch.ones(()), x.to(whole).to(wide))

    x = torch.tensor([-0.0, -0.5, 0.5, -2.75, 3.0]).repeat(9)
    assert torch.equal(compiled(function, x)(x)[0], function(x))
