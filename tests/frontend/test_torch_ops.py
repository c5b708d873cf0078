"""Calls of `torch.ops`: ATen's operators by name, whole or one overload, are nodes like any torch function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import minicompile

aten = torch.ops.aten
SINE = aten.sin.default

PROGRAMS: dict[str, Callable[..., object]] = {
    "an overload": lambda x, y: aten.mul.Tensor(x, y) + 1,
    "a packet": lambda x, y: aten.add(x, y, alpha=2),
    "by attribute": lambda x, y: torch.ops.aten._softmax.default(x, -1, False) * y,
    "a global": lambda x, y: SINE(x),
    "several results": lambda x, y: torch.ops.aten.max.dim(x, 0),
    "in place": lambda x, y: aten.add_.Tensor(x, y) * 2,
    "a list": lambda x, y: aten.cat.default([x, y], 0),
    "none of them": lambda x, y: aten.clamp.default(x, None, 0.5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name: str) -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    a, b = x.clone(), x.clone()
    want = PROGRAMS[name](a, y)
    got = minicompile.compile(PROGRAMS[name], fullgraph=True)(b, y)
    torch.testing.assert_close((got, b), (want, a))


def test_gradients() -> None:
    x = torch.randn(5, requires_grad=True)
    minicompile.compile(lambda x: SINE(x).sum(), fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_a_custom_operator() -> None:
    @torch.library.custom_op("minicompile_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    x = torch.randn(4)
    compiled = minicompile.compile(lambda x: torch.ops.minicompile_tests.twice(x + 1) * 3, fullgraph=True)
    torch.testing.assert_close(compiled(x), (x + 1) * 6)


@torch.library.custom_op("minicompile_tests::scaled_sum", mutates_args=())
def scaled_sum(x: torch.Tensor, y: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    return (x + y) * k


@torch.library.custom_op("minicompile_tests::parts", mutates_args=())
def parts(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x.clone(), [x + 1, x + 2]


@torch.library.custom_op("minicompile_tests::count", mutates_args=("x", "n"))
def count(x: torch.Tensor, n: torch.Tensor, by: int = 1) -> torch.Tensor:
    n.add_(by)
    x.mul_(2)
    return x.sum(0)


scaled_sum.register_fake(lambda x, y, k=2.0: torch.empty_like(x))
parts.register_fake(lambda x: (torch.empty_like(x), [torch.empty_like(x), torch.empty_like(x)]))
count.register_fake(lambda x, n, by=1: x.new_empty(x.shape[1:]))
scaled_sum.register_autograd(
    lambda ctx, g: (g * ctx.k, g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[2])
)


def nested_results(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    first, (second, third) = parts(x * 2)
    return first + second * third


def writes_to_views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = x + 1
    first = count(made[1:], y[0], by=3)
    return first, count(made, y[1]), made, y.sum()


DEFINED: dict[str, Callable[..., object]] = {
    "called": lambda x, y: scaled_sum(x, y, k=3.0).sin(),
    "in a list of results": nested_results,
    "that writes": lambda x, y: (count(x, y), x + y),
    "that writes to views": writes_to_views,
}


@pytest.mark.parametrize("name", DEFINED)
def test_an_operator_of_the_program(name: str) -> None:
    compiled = minicompile.compile(DEFINED[name], fullgraph=True)
    for rows in (3, 4, 5):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        a, b = (x.clone(), y.clone()), (x.clone(), y.clone())
        want, got = DEFINED[name](*a), compiled(*b)
        torch.testing.assert_close((got, b), (want, a))
    assert len(compiled.entries) <= 2


def test_an_operator_with_a_gradient_of_its_own() -> None:
    x = torch.randn(5, requires_grad=True)
    minicompile.compile(lambda x: scaled_sum(x, x, 3.0).sum(), fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, torch.full((5,), 6.0))


def test_an_operator_is_itself() -> None:
    assert minicompile.compile(lambda x: (scaled_sum, x + 1), fullgraph=True)(torch.ones(2))[0] is scaled_sum
