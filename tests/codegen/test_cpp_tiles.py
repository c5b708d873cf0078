"""Tile kernels: pointwise work on tensors that lie across one another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minicompile.codegen import compile_ir
from minicompile.codegen.cpp_tiles import transposed_axis
from minicompile.ir.reference import run

from .build import B


def add_transposed(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Any:
    b = B("tiles")
    x, y = b.input(rows, columns, dtype=dtype), b.input(columns, rows, dtype=dtype)
    return b.finish(b.add(x, b.permute(y, 1, 0)))


def is_tiled(compiled: Any) -> bool:
    return "_first" in compiled.native_source


@pytest.mark.parametrize("sizes", [(256, 512), (129, 331), (1000, 17), (8, 5000)])
def test_sizes_that_tiles_do_not_divide(sizes: tuple[int, int]) -> None:
    graph = add_transposed(*sizes)
    x, y = torch.randn(sizes), torch.randn(sizes[::-1])
    compiled = compile_ir(graph)
    assert is_tiled(compiled)
    assert torch.equal(compiled(x, y)[0], x + y.T)


@pytest.mark.parametrize(("sizes", "strip"), [((2100, 1061), 512), ((512, 512), 64)])
def test_tiles_of_large_operands_follow_each_other_on_the_same_pages(sizes: tuple[int, int], strip: int) -> None:
    compiled = compile_ir(add_transposed(*sizes))
    x, y = torch.randn(sizes), torch.randn(sizes[::-1])
    assert f"strip += {strip})" in compiled.native_source
    assert torch.equal(compiled(x, y)[0], x + y.T)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bfloat16])
def test_elements_of_every_width(dtype: torch.dtype) -> None:
    """Squares of vectors of 4 and 8 bytes, loops over others, a copy where elements are converted; and their edges."""
    x, y = (torch.randint(100, size).to(dtype) for size in ((90, 203), (203, 90)))
    compiled = compile_ir(add_transposed(90, 203, dtype))
    assert is_tiled(compiled) and "mc_transpose" in compiled.native_source
    assert torch.equal(compiled(x, y)[0], x + y.T)


def test_batches_other_dtypes_and_several_transposed_operands() -> None:
    b = B("batched")
    x, y, z = b.input(3, 100, 200), b.input(3, 200, 100, dtype=torch.bfloat16), b.input(3, 200, 100)
    mixed = b.mul(b.cast(b.permute(y, 0, 2, 1), torch.float32), b.permute(z, 0, 2, 1))
    graph = b.finish(b.add(x, mixed))
    args = torch.randn(3, 100, 200), torch.randn(3, 200, 100).bfloat16(), torch.randn(3, 200, 100)
    compiled = compile_ir(graph)
    assert is_tiled(compiled)
    assert torch.equal(compiled(*args)[0], run(graph, *args)[0])


def test_distant_angles_in_a_tile() -> None:
    """A run that is done again reads its tile again."""
    b = B("sines")
    x, y = b.input(200, 300), b.input(300, 200)
    graph = b.finish(b.add(x, b.sin(b.permute(y, 1, 0))))
    args = torch.randn(200, 300), torch.randn(300, 200)
    args[1][7, 5] = 1e9
    compiled = compile_ir(graph)
    assert is_tiled(compiled)
    torch.testing.assert_close(compiled(*args)[0], args[0] + torch.sin(args[1].T), rtol=1e-6, atol=1e-6)


def test_small_and_straight_kernels_are_not_tiled() -> None:
    assert not is_tiled(compile_ir(add_transposed(16, 16)))
    b = B("straight")
    x = b.input(300, 300)
    assert not is_tiled(compile_ir(b.finish(b.add(x, 1.0))))


def test_the_axis_is_the_one_that_most_operands_lie_along() -> None:
    from minicompile.codegen.fusion import fuse
    from minicompile.codegen.plan import lower_units
    from minicompile.codegen.prepare import Views, prepare

    graph = prepare(add_transposed(300, 400))
    (low,) = lower_units(fuse(graph, Views()).units, graph).values()
    axis = transposed_axis(low.kernel)
    assert axis is not None and axis.hint == 300
