"""Alike kernels as one call: counts, values, what may and may not be written in place, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.codegen.compile import compile_ir
from minicompile.codegen.compiled import CompiledGraph
from minicompile.config import config

from ..lowering.support import lowered
from ..support import assert_same

SIZES = ((3,), (64, 64), (7,), (300, 400), (2,))


def compiled(function: Callable[..., Any], *args: Any) -> CompiledGraph:
    return compile_ir(passes.run(lowered(function, *args)), backend="cpp")


def tensors(sizes: Sequence[tuple[int, ...]] = SIZES, count: int = 1) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size) for size in sizes for _ in range(count)]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def both(function: Callable[..., Any], args: list[torch.Tensor], kernels: int) -> CompiledGraph:
    """Results and written arguments are eager's; so many calls are made."""
    graph = compiled(function, *args)
    ours, theirs = ([_copy(arg) for arg in args] for _ in range(2))
    for _ in range(2):
        result, expected = graph(*ours), function(*theirs)
        if expected is not None:
            assert_same(list(result), list(expected))
        assert_same(ours, theirs)
    assert len(graph.kernels) == kernels, [kernel.name for kernel in graph.kernels]
    return graph


def scaled(*xs):
    return [x.sin() * 2 for x in xs]


def momentum(*xs):
    for p, g, m in zip(xs[::3], xs[1::3], xs[2::3], strict=True):
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)


def sums(*xs):
    return [x.pow(2).sum() for x in xs]


def scaled_by_first(*xs):
    return [x / (xs[0].sum() + 2) for x in xs[1:]]


def chained(*xs):
    products = [hidden @ hidden for hidden in (x.sin() for x in xs)]
    return [product.relu() for product in products]


def test_sizes_may_differ() -> None:
    both(scaled, tensors(), kernels=1)


def test_inputs_are_written_in_place() -> None:
    graph = both(momentum, tensors(count=3), kernels=1)
    assert "copy_" not in graph.wrapper_source and "empty" not in graph.wrapper_source


def test_reductions_of_one_size() -> None:
    both(sums, tensors(((40, 50),) * 6), kernels=1)


def test_reductions_of_several_sizes_are_several_calls() -> None:
    both(sums, tensors(((40, 50),) * 3 + ((9, 9),) * 2), kernels=2)


def test_a_scalar_that_all_read() -> None:
    both(scaled_by_first, tensors(((4,), (3,), (64, 64), (128,))), kernels=2)


def test_layers_stay_in_order() -> None:
    graph = both(chained, tensors(((4, 4), (5, 5), (6, 6))), kernels=2)
    assert [kernel.ops.count("relu") for kernel in graph.kernels] == [0, 3]


def test_more_tensors_than_threads_and_large_ones_first() -> None:
    both(scaled, tensors(((100_000,), (5,), (70_000,)) * 12), kernels=1)


def test_nothing_is_shared_with_another_dtype_or_layout() -> None:
    xs = [torch.randn(64), torch.randn(64).double(), torch.randn(64), torch.arange(64.0).to(torch.bfloat16)]
    both(lambda *xs: [x * 2 + 1 for x in xs], xs, kernels=3)
    xs = [torch.randn(6, 8), torch.randn(8, 6).t(), torch.randn(6, 8)[:, ::2], torch.randn(48)]
    both(lambda *xs: [(x * 2).sin() for x in xs], xs, kernels=2)


def test_an_input_that_another_member_reads_is_written_last() -> None:
    def swap(a, b, c):
        first, second, third = b + 1, c + 1, a + 1
        a.copy_(first)
        b.copy_(second)
        c.copy_(third)

    both(swap, tensors(((500,), (500,), (500,))), kernels=1)


def test_a_loop_of_writes() -> None:
    def chain(a, b, c):
        a.add_(1)
        b.add_(a)
        c.add_(b)

    both(chain, tensors(((3,), (3,), (3,))), kernels=1)


def test_large_results_stay_beside_those_that_read_them() -> None:
    def products(a, b, w):
        return (a.sin() @ w).relu(), (b.sin() @ w).relu()

    both(products, [torch.randn(300, 300) for _ in range(3)], kernels=3)
    both(products, [torch.randn(30, 30) for _ in range(3)], kernels=2)


def test_a_float_that_varies_is_an_argument_of_all() -> None:
    @torch.no_grad()
    def step(tensors, rate):
        for x in tensors:
            x -= rate * x.sin()

    compiled_step = minicompile.compile(step, fullgraph=True)
    for rate in (0.1, 0.2, 0.3):
        ours, theirs = tensors(), tensors()
        compiled_step(ours, rate)
        step(theirs, rate)
        assert_same(ours, theirs)
    assert [len(graph.compiled.kernels) for entry in compiled_step.entries for graph in entry.graphs] == [1, 1]


def test_empty_tensors_take_no_part() -> None:
    both(scaled, tensors(((0,), (3,), (2, 0), (4,))), kernels=1)


def test_every_decision_is_told() -> None:
    graph = both(scaled, tensors(), kernels=1)
    assert "one call for 5 kernels that are alike" in graph.describe()


@pytest.mark.parametrize("delayed", [True, False])
def test_random_numbers_are_drawn_in_eager_order(delayed: bool) -> None:
    def draws(x, y):
        p = x.sigmoid()
        first = torch.bernoulli(p)
        second = torch.rand(8, 8)
        z = y @ y if delayed else y
        return first, second, (x + z.sin()).exp(), p

    x, y = torch.randn(8, 8), torch.randn(8, 8)
    found = []
    for run in (minicompile.compile(draws, fullgraph=True), draws):
        torch.manual_seed(0)
        with config.patch(fallback_random=True):
            found.append(run(x, y))
    assert_same(*found)
