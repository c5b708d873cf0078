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
