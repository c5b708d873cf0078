"""torch.inference_mode inside compiled functions: what is an inference tensor, what records gradients, as in eager."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

from .programs import Programs

torch.manual_seed(0)
X, G = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
LINEAR = torch.nn.Linear(4, 4)
ONE_GRAPH, BREAKS, RAISES = Programs(), Programs(), Programs()


@torch.inference_mode()
def predicted(x: Tensor) -> Tensor:
    return LINEAR(x).argmax(-1)


class Frozen(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).relu()


FROZEN = Frozen()


@ONE_GRAPH.program(X)
def everything_inside(x: Tensor) -> Any:
    with torch.inference_mode():
        return LINEAR(x), torch.is_grad_enabled(), torch.is_inference_mode_enabled()


@ONE_GRAPH.program(X)
def used_outside_where_gradients_are_recorded(x: Tensor) -> Any:
    with torch.inference_mode():
        y = LINEAR(x)
    return LINEAR(x + y), y.is_inference()


@ONE_GRAPH.program(X)
def decorated_outside(x: Tensor) -> Any:
    return predicted(x) + 1


@ONE_GRAPH.program(X)
def decorated_method(x: Tensor) -> Any:
    return FROZEN(x)


@ONE_GRAPH.program(X)
def decorated_inside(x: Tensor) -> Any:
    @torch.inference_mode()
    def first(t: Tensor) -> Tensor:
        return t.cos()

    @torch.inference_mode
    def second(t: Tensor) -> Tensor:
        return t.sin()

    return first(x), second(x)


@BREAKS.program(G)
def off_is_grad_mode_on(x: Tensor) -> Any:
    with torch.no_grad():
        with torch.inference_mode(False):
            y = x.sin()
        z = x.cos()
    return y, z, torch.is_grad_enabled()


@ONE_GRAPH.program(X)
def grad_mode_inside_changes_nothing(x: Tensor) -> Any:
    with torch.inference_mode():
        with torch.enable_grad():
            y, mode = LINEAR(x), torch.is_grad_enabled()
        return y, mode, torch.is_grad_enabled()


@ONE_GRAPH.program(X)
def changes_its_argument(x: Tensor) -> Any:
    with torch.inference_mode():
        x.add_(1)
        return x * 2


@ONE_GRAPH.program(X)
def views_of_an_argument_are_ordinary(x: Tensor) -> Any:
    with torch.inference_mode():
        x.mul_(2)
        return x[:2], x.T


@ONE_GRAPH.program(X)
def left_by_an_exception(x: Tensor) -> Any:
    try:
        with torch.inference_mode():
            y = x + 1
            raise ValueError("inside")
    except ValueError:
        return x * 2, torch.is_inference_mode_enabled(), y.is_inference()


@ONE_GRAPH.program(X)
def one_manager_twice(x: Tensor) -> Any:
    block = torch.inference_mode(mode=x.shape[0] > 2)
    with block:
        y = x + 1
    with block, torch.autocast("cpu"):
        return LINEAR(y)


@BREAKS.program(X)
def results_from_inside_and_outside(x: Tensor) -> Any:
    with torch.inference_mode():
        y = LINEAR(x)
    return y, LINEAR(x)


@BREAKS.program(G)
def off_inside_of_on(x: Tensor) -> Any:
    with torch.inference_mode():
        with torch.inference_mode(False):
            y = x.sin()
        return y, x.cos()


@BREAKS.program(X)
def a_break_inside(x: Tensor) -> Any:
    with torch.inference_mode():
        y = x + 1
        minicompile.graph_break()
        y = y * 2
    return y + 1, torch.is_inference_mode_enabled()


@RAISES.program(X)
def writes_to_an_inference_tensor(x: Tensor) -> Any:
    with torch.inference_mode():
        y = x + 1
    return y.add_(1)


@RAISES.program(G)
def saves_an_inference_tensor_for_backward(x: Tensor) -> Any:
    with torch.inference_mode():
        y = x.sin()
    return y * x


def facts(value: Any) -> Any:
    """What a program may notice about its results."""
    if isinstance(value, Tensor):
        return (value.is_inference(), value.requires_grad, value.dtype, value.stride(), value.detach().clone())
    return [facts(item) for item in value] if isinstance(value, (list, tuple)) else value


def outcome(fn: Callable[..., Any], args: tuple[Any, ...], block: Any) -> Any:
    args = copy.deepcopy(args)
    with block():
        try:
            result = facts(fn(*args))
        except RuntimeError as error:
            result = str(error)
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    return result, facts(args), [arg._version for arg in args], modes


def check(program: tuple[Callable[..., Any], tuple[Any, ...]], **options: Any) -> None:
    """Compiled is like eager, called from outside and from inside inference mode, twice."""
    fn, args = program
    for backend in ("eager", "auto"):
        compiled = minicompile.compile(fn, backend=backend, **options)
        for block in (contextlib.nullcontext, torch.inference_mode) * 2:
            assert_same(outcome(compiled, args, block), outcome(fn, args, block))


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph_like_eager(name: str) -> None:
    check(ONE_GRAPH[name], fullgraph=True)


@pytest.mark.parametrize("name", BREAKS)
def test_a_block_that_is_entered_between_graphs(name: str) -> None:
    check(BREAKS[name])


@pytest.mark.parametrize("name", RAISES)
def test_errors_are_those_of_eager(name: str) -> None:
    check(RAISES[name])


def test_a_graph_that_raises_leaves_no_mode_on() -> None:
    def fn(x: Tensor, index: Tensor) -> Tensor:
        with torch.inference_mode():
            return x[index] * 2

    for backend in ("eager", "auto"):
        compiled = minicompile.compile(fn, backend=backend)
        compiled(X, torch.tensor([0]))
        with pytest.raises(IndexError):
            compiled(X, torch.tensor([7]))
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_inference_tensors_that_overlap(backend: str) -> None:
    """They have no version that tells that they were written to."""

    def fn(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        torch._foreach_add_([a], 1)
        return b * 2

    compiled = minicompile.compile(fn, backend=backend)
    with torch.inference_mode():
        for fresh in (lambda: (torch.zeros(3), torch.zeros(3)), lambda: (lambda m: (m[:3], m[1:]))(torch.zeros(4))):
            expected, actual = fresh(), fresh()
            assert fn(*expected).tolist() == compiled(*actual).tolist()
            assert_same(facts(actual), facts(expected))
