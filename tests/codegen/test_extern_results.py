"""Results of extern calls of which the fake tensors were wrong: whoever reads them sees the right elements."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.codegen import compile_ir
from minicompile.config import config
from minicompile.lowering import lower

from ..lowering.support import captured, externs, run_and_compare
from .build import B, tensor_type


@pytest.mark.parametrize("strides", [(1, 4), (3, 1)])
def test_a_result_with_other_strides_is_laid_out_anew(strides: Any) -> None:
    """The type says one thing; ATen's transposing clone may do another."""
    b = B()
    x = b.input(4, 3, strides=(1, 4))
    result = b.extern(torch.ops.aten.clone.default, x, type=tensor_type((4, 3), strides=strides))
    data = torch.randn(3, 4).t()
    text = compile_ir(b.finish(b.mul(result, 2.0)), backend="cpp")
    assert torch.equal(text(data)[0], data * 2)
    assert f".stride() != {strides}" in text.wrapper_source


def test_a_result_that_is_only_returned_is_not_checked() -> None:
    b = B()
    graph = b.finish(b.extern(torch.ops.aten.clone.default, b.input(4, 3), type=tensor_type((4, 3))))
    assert "stride()" not in compile_ir(graph, backend="cpp").wrapper_source


def test_a_roll_of_channels_last() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, 1, 2) * 2

    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    graph = passes.run(lower(captured(function, x), [x]))
    assert externs(graph) == [], "a kernel of its own"
    got, wanted = compile_ir(graph, backend="cpp")(x)[0], function(x)
    torch.testing.assert_close(got, wanted)
    assert got.stride() == wanted.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_running_statistics_keep_their_dtype(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        torch.nn.functional.batch_norm(x, mean, var, training=True)
        return mean * 2

    inputs = [torch.randn(4, 3, 5).to(dtype), torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)]
    run_and_compare(compile_ir(passes.run(lower(captured(function, *inputs), inputs)), backend="cpp"), function, inputs)


def test_a_result_with_gaps_does_not_take_a_smaller_buffer() -> None:
    """Found by the fuzzer: a dead buffer of 24 elements was given to 24 elements that lie 47 apart."""

    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.exp().index_select(0, i).index_select(0, i).unfold(1, 1, 2)

    x, i = torch.randn(6, 8), torch.tensor([5, 0, 3, 3, 1, 2])
    run_and_compare(compile_ir(passes.run(lower(captured(function, x, i), [x, i])), backend="cpp"), function, [x, i])


@pytest.mark.parametrize("step", [1, 3, 5], ids=["overlapping", "touching", "gaps"])
def test_an_operand_lies_as_eagers_does_where_windows_overlap(step: int) -> None:
    """Found by the fuzzer: eager lays out the result by its operand's strides, which no dense copy has."""

    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        windows = (x + 1).unfold(1, 4, step)
        return torch.remainder(windows, windows), windows.sum(), x.gather(1, i)

    x, i = torch.arange(120, dtype=torch.int16).reshape(4, 30), torch.tensor([[3], [2], [29], [0]])
    graph = passes.run(lower(captured(function, x, i), [x, i]))
    assert externs(graph) == ["aten.remainder.Tensor"]
    compiled, wanted = compile_ir(graph, backend="cpp")(x, i), function(x, i)
    for result, expected in zip(compiled, wanted, strict=True):
        torch.testing.assert_close(result, expected, check_stride=True)


def test_fusion_makes_no_cycle_through_what_it_computed_twice() -> None:
    """Found by the fuzzer."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        flat = torch.flatten(x)
        result = flat.clone()
        result[8::2] = 1
        return flat >= flat.prod(-1), flat.cumsum(0).abs(), result

    x = torch.arange(12, dtype=torch.int16).reshape(1, 3, 4).expand(2, 3, 4)
    with config.patch(strict=True):
        torch.testing.assert_close(minicompile.compile(function, fullgraph=True)(x), function(x))
