"""The demo's functions, side by side: minicompile, eager, torch.compile (Inductor); first, later and changed calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.examples.programs import PROGRAMS
from tests.support import assert_as_accurate, assert_same


def other_data(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randn(arg.shape, generator=torch.Generator().manual_seed(1)) for arg in args)


def smaller_batch(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(arg[:2].clone() * -1 for arg in args)


def other_strides(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same values, laid out with the last two dimensions swapped in memory."""
    return tuple(arg.transpose(-1, -2).contiguous().transpose(-1, -2) for arg in args)


CALLS: dict[str, Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]] = {
    "first call": lambda args: args,
    "other data": other_data,
    "other shape": smaller_batch,
    "other strides": other_strides,
    "first again": lambda args: args,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_eager_and_as_inductor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    ours, inductor = minicompile.compile(fn), torch.compile(fn)
    with torch.no_grad():
        for call, change in CALLS.items():
            inputs = change(args)
            expected = fn(*inputs)
            printed = capsys.readouterr().out
            actual = ours(*inputs)
            assert capsys.readouterr().out == printed, call
            assert_same(actual, expected)
            theirs = inductor(*inputs)
            capsys.readouterr()
            assert_same(actual, theirs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    args = smaller_batch(args)
    ours = minicompile.compile(fn)
    with torch.no_grad():
        ours(*args)
        exact_fn, _ = PROGRAMS[name].make("cpu")
        exact = as_dtype(exact_fn, torch.float64)(*(arg.to(dtype).double() for arg in args))
        as_dtype(fn, dtype)
        inputs = tuple(arg.to(dtype) for arg in args)
        actual, expected = ours(*inputs), fn(*inputs)
    if dtype is torch.float64:
        assert_same(actual, expected)
    else:
        assert_as_accurate(actual, expected, exact)


def as_dtype(fn: Any, dtype: torch.dtype) -> Any:
    return fn.to(dtype) if isinstance(fn, torch.nn.Module) else fn


@pytest.mark.parametrize("name", PROGRAMS)
def test_grad_mode_and_training_change_between_calls(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    args = tuple(arg[:1] for arg in args)
    ours = minicompile.compile(fn)
    with torch.no_grad():
        assert_same(ours(*args), fn(*args))
    assert_same(gradients(ours, args), gradients(fn, args))
    if isinstance(fn, torch.nn.Module):
        fn.train()
        assert_same(ours(*args), fn(*args))
        fn.eval()
    with torch.no_grad():
        assert_same(ours(*args), fn(*args))


def gradients(fn: Callable[..., Tensor], args: tuple[Tensor, ...]) -> list[Any]:
    leaves = [arg.detach().clone().requires_grad_() for arg in args]
    out = fn(*leaves)
    out.square().sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if not program.breaks])
def test_one_graph(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    with torch.no_grad():
        explanation = minicompile.explain(fn)(*(arg[:1] for arg in args))
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def test_entropy_is_one_kernel() -> None:
    fn, args = PROGRAMS["InformationScorer"].make("cpu")
    assert minicompile.explain(fn)(args[0][:1]).kernel_count == 1


def test_transformer_block_has_no_more_kernels_than_inductor() -> None:
    from torch._inductor import metrics

    fn, args = PROGRAMS["TransformerBlock"].make("cpu")
    with torch.no_grad():
        torch.compiler.reset()
        metrics.reset()
        with torch.compiler.config.patch(force_disable_caches=True):
            torch.compile(fn)(*args)
        explanation = minicompile.explain(fn)(*args)
    assert 0 < explanation.kernel_count <= metrics.generated_kernel_count
    assert explanation.graph_count == 1


def test_loop_with_print_prints_in_order_and_compiles_few_segments(capsys: pytest.CaptureFixture[str]) -> None:
    fn, args = PROGRAMS["loop_with_print"].make("cpu")
    ours = minicompile.compile(fn)
    with torch.no_grad():
        for _ in range(5):
            ours(*args)
            assert capsys.readouterr().out == "step 0\nstep 1\nstep 2\n"
            compiled_so_far = minicompile.stats()["frames"]
        assert compiled_so_far <= 8
        before = minicompile.stats()["graphs"]
        ours(*args)
        assert minicompile.stats()["graphs"] == before
