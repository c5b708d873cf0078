"""Fused C++ kernels against the reference interpreter: reductions, views, layouts, sizes; and how many kernels there
are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from minicompile.codegen import CompiledGraph, compile_ir
from minicompile.ir.graph import Graph, Node
from minicompile.ir.reference import run
from minicompile.ir.verifier import verify

from .build import B, entropy, gelu, layer_norm, softmax
from .random_graphs import random_graph


def check(graph: Graph, *inputs: Any, kernels: int | None = None, tolerance: float = 1e-5) -> CompiledGraph:
    """Compile, run, compare with the reference; outputs must have eager's strides."""
    verify(graph)
    wanted = run(graph, *[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
    compiled = compile_ir(graph)
    got = compiled(*inputs)
    assert len(got) == len(wanted)
    for out, one, other in zip(graph.outputs, got, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if isinstance(out, Node):
            assert one.stride() == out.tensor.strides, out
        close = torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
        assert close, (one, other)
    if kernels is not None:
        assert len(compiled.kernels) == kernels, compiled.describe()
    return compiled


def test_scorers_and_norms_are_one_kernel_each() -> None:
    b = B()
    check(b.finish(entropy(b, b.input(4, 7, 96))), torch.randn(4, 7, 96), kernels=1)
    b = B()
    check(b.finish(softmax(b, b.input(5, 33))), torch.randn(5, 33), kernels=1)
    b = B()
    x, w, v = b.input(6, 50), b.input(50), b.input(50)
    check(b.finish(gelu(b, layer_norm(b, x, w, v))), torch.randn(6, 50), torch.randn(50), torch.randn(50), kernels=1)


def test_chain_of_pointwise_is_one_kernel() -> None:
    b = B()
    x = y = b.input(40, 3)
    for _ in range(20):
        y = b.add(b.mul(b.sin(y), 1.5), x)
    check(b.finish(y), torch.randn(40, 3), kernels=1, tolerance=1e-4)


def test_two_outputs_from_one_pass() -> None:
    b = B()
    x = b.input(8, 64)
    y = b.exp(x)
    check(b.finish(y, b.reshape(b.sum(y, 1), 8), b.amax(x, 1)), torch.randn(8, 64), kernels=1)


def test_horizontal_fusion_of_what_reads_the_same() -> None:
    b = B()
    x = b.input(8, 64)
    check(b.finish(b.exp(x), b.neg(x)), torch.randn(8, 64), kernels=1)


def test_reduction_broadcast_to_another_tensor() -> None:
    b = B()
    x, y = b.input(8, 64), b.input(8, 64)
    check(b.finish(b.mul(b.expand(b.sum(x, 1), 8, 64), y)), torch.randn(8, 64), torch.randn(8, 64), kernels=1)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_reduced_dimensions(dims: tuple[int, ...]) -> None:
    b = B()
    x = b.input(5, 17, 13)
    check(b.finish(b.sum(x, *dims), b.amax(b.mul(x, 2.0), *dims)), torch.randn(5, 17, 13))


REDUCED = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_reductions_of_all_kinds(dtype: torch.dtype) -> None:
    b = B()
    x = b.input(3, 37, dtype=dtype)
    data = (torch.randn(3, 37) * 3).to(dtype)
    graph = b.finish(b.sum(x, 1), b.prod(x, 1), b.amax(x, 1), b.amin(x, 1))
    check(graph, data, tolerance=2e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-4)


def test_reductions_of_bool() -> None:
    b = B()
    x = b.input(4, 9, dtype=torch.bool)
    data = torch.rand(4, 9) > 0.5
    data[0], data[1] = True, False
    check(b.finish(b.any(x, 1), b.all(x, 1), b.amax(x, 1), b.amin(x, 1)), data)


def test_nan_and_infinity_in_reductions() -> None:
    b = B()
    x = b.input(6, 40)
    data = torch.randn(6, 40)
    data[0, 3] = math.nan
    data[1] = -math.inf
    data[2, 5], data[2, 6] = math.inf, -math.inf
    data[3, 39] = math.inf
    data[4, 0] = -math.nan
    check(b.finish(b.sum(x, 1), b.amax(x, 1), b.amin(x, 1), softmax(b, x)), data)


@pytest.mark.parametrize("n", [1, 2, 4095, 4097, 70001, 300_000])
def test_long_rows(n: int) -> None:
    b = B()
    x = b.input(2, n)
    check(b.finish(softmax(b, x), b.sum(x, 1)), torch.randn(2, n))
    b = B()
    x = b.input(n)
    check(b.finish(softmax(b, x), b.sum(x, 0), b.amax(x, 0)), torch.randn(n))


def test_long_sum_is_as_exact_as_eager() -> None:
    b = B()
    compiled = compile_ir(b.finish(b.sum(b.input(3_000_000), 0)))
    x = torch.rand(3_000_000)
    assert abs(compiled(x)[0].item() - x.double().sum().item()) <= 0.13


def test_a_small_operand_does_not_say_which_way_memory_is_walked() -> None:
    """A column sum over rows that are scaled: one number a row, which lies the other way, is next to nothing."""
    b = B()
    x, scale = b.input(512, 512), b.input(512, 1)
    graph = b.finish(b.sum(b.div(x, b.expand(scale, 512, 512)), 0))
    compiled = check(graph, torch.randn(512, 512), torch.rand(512, 1) + 1, tolerance=1e-4)
    assert "tile += " in compiled.kernels[0].source


def test_empty_tensors() -> None:
    b = B()
    check(b.finish(b.exp(b.input(0, 4))), torch.randn(0, 4), kernels=0)
    b = B()
    check(b.finish(b.sum(b.input(3, 0), 1)), torch.randn(3, 0))


def test_zero_dimensional() -> None:
    b = B()
    x, y = b.input(), b.input(3)
    check(b.finish(b.exp(x), b.add(b.expand(b.reshape(x, 1), 3), y)), torch.tensor(2.0), torch.randn(3))


def test_transposed_and_broadcast_inputs() -> None:
    data = torch.randn(6, 8).t()
    b = B()
    x = b.input_like(data)
    check(b.finish(b.exp(x), b.sum(x, 1), b.sum(x, 0)), data)
    wide = torch.randn(1, 8).expand(5, 8)
    b = B()
    check(b.finish(b.exp(b.input_like(wide))), wide)


def test_a_computed_value_added_to_its_transpose() -> None:
    b = B()
    y = b.exp(b.input(7, 7))
    check(b.finish(b.add(y, b.permute(y, 1, 0))), torch.randn(7, 7))


def test_merged_heads() -> None:
    """permute + reshape that no strides describe: one kernel with finer axes."""
    b = B()
    x = b.input(2, 3, 5, 4)
    merged = b.reshape(b.permute(b.exp(x), 0, 2, 1, 3), 2, 5, 12)
    check(b.finish(b.add(merged, 1.0)), torch.randn(2, 3, 5, 4), kernels=1)


def test_reshape_without_common_factors() -> None:
    b = B()
    x = b.input(4, 6)
    y = b.reshape(b.permute(b.exp(x), 1, 0), 8, 3)
    check(b.finish(b.add(y, 1.0), b.exp(x)), torch.randn(4, 6))
    b = B()
    y = b.reshape(b.permute(b.input(4, 6), 1, 0), 8, 3)
    check(b.finish(b.add(b.reshape(b.permute(y, 1, 0), 12, 2), 1.0)), torch.randn(4, 6))


def test_slices_of_inputs_and_of_computed_values() -> None:
    b = B()
    x = b.input(6, 10)
    left, right = b.slice(x, 1, 0, 5), b.slice(x, 1, 5, 5)
    check(b.finish(b.mul(left, b.sigmoid(right))), torch.randn(6, 10), kernels=1)
    b = B()
    y = b.exp(b.input(6, 10))
    check(b.finish(b.mul(b.slice(y, 1, 1, 5), b.slice(y, 1, 0, 5, 2))), torch.randn(6, 10), kernels=2)


def test_views_as_outputs_have_memory_of_their_own() -> None:
    b = B()
    x = b.input(4, 6)
    compiled = check(b.finish(b.permute(x, 1, 0), x, b.slice(b.exp(x), 1, 2, 3)), torch.randn(4, 6))
    data = torch.randn(4, 6)
    outs = compiled(data)
    assert len({t.untyped_storage().data_ptr() for t in (data, *outs)}) == 4


def test_masks_and_indices_are_recomputed() -> None:
    b = B()
    x = b.input(5, 5)
    mask = b.le(b.iota(1, 5, 5), b.iota(0, 5, 5))
    y = b.where(mask, x, float("-inf"))
    check(b.finish(softmax(b, y), b.where(mask, b.full(1.0, 5, 5), x)), torch.randn(5, 5), kernels=1)


def test_half_precision_is_rounded_where_stored() -> None:
    b = B()
    x = b.input(8, 33, dtype=torch.bfloat16)
    y = b.cast(b.mul(b.cast(x, torch.float32), 3.0), torch.bfloat16)
    check(b.finish(b.add(y, y), b.cast(y, torch.float32)), torch.randn(8, 33).bfloat16(), kernels=1, tolerance=1e-2)


def test_two_dimensional_rows() -> None:
    """A reduction over two dimensions, its result broadcast back over both."""
    b = B()
    x = b.input(3, 4, 5, 6)
    mean = b.mul(b.sum(x, 1, 3), 1.0 / 24)
    check(b.finish(b.sub(x, b.expand(mean, 3, 4, 5, 6))), torch.randn(3, 4, 5, 6), kernels=1)


def test_reduction_of_a_constant_counts_the_elements() -> None:
    b = B()
    check(b.finish(b.sum(b.mul(b.full(2.0, 3, 7), 1.5), 1)), kernels=1)


def test_what_must_stay_apart_says_why() -> None:
    b = B()
    x = b.input(8, 8)
    y = b.exp(b.sum(x, 1))
    z = b.exp(b.sum(x, 0))
    compiled = check(b.finish(y, z), torch.randn(8, 8))
    refused = [d.reason for d in compiled.decisions if not d.fused]
    assert any("different axes" in reason for reason in refused), compiled.describe()


@pytest.mark.parametrize("seed", range(15))
def test_random_graphs(seed: int) -> None:
    graph, inputs = random_graph(seed, nodes=20)
    check(graph, *inputs, tolerance=1e-4)
