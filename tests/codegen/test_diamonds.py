"""Values that are read twice at every step: 2^n paths lead through n of them. Planning and printing count values.

A test that walks paths would not end; the time limit says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import minicompile

STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda y: y + y,
    "product": lambda y: y * y - y,
    "maximum": lambda y: torch.maximum(y, y.abs()),
    "transposed": lambda y: y + y.T,
    "choice": lambda y: torch.where(y > 0, y, -y),
}
ENDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pointwise": lambda x, y: y,
    "block function": lambda x, y: torch.exp(x) * y,
    "row": lambda x, y: torch.softmax(y, 1),
    "reductions": lambda x, y: y.sum(1) + y.amax(1),
    "gather": lambda x, y: y[torch.tensor([3, 1])],
    "scan": lambda x, y: y.cumsum(1),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("step", STEPS)
def test_forty_steps(step: str, end: str) -> None:
    def fn(x: Tensor) -> Tensor:
        y = x * 1e-13
        for _ in range(40):
            y = STEPS[step](y)
        return ENDS[end](x, y)

    x = torch.randn(64, 64)
    torch.testing.assert_close(minicompile.compile(fn)(x), fn(x), rtol=1e-4, atol=1e-6)


@pytest.mark.timeout(120)
def test_forty_steps_backward() -> None:
    def fn(x: Tensor) -> Tensor:
        for _ in range(40):
            x = (x + x) * 0.5
        return x.sum(1)

    x = torch.randn(64, 64, requires_grad=True)
    minicompile.compile(fn)(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("end", ["block function", "row"])
def test_a_thousand_steps(end: str) -> None:
    """Deeper than Python's stack: a kernel's instructions are walked by loops."""

    def fn(x: Tensor) -> Tensor:
        y = x
        for _ in range(1000):
            y = y * 0.999 + x
        return ENDS[end](x * 1e-3, y)

    x = torch.rand(64, 64) * 0.01
    compiled = minicompile.compile(fn)
    torch.testing.assert_close(compiled(x), fn(x), rtol=1e-4, atol=1e-6)
    assert compiled.entries[0].graphs[0].compiled.kernels
