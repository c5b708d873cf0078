"""`exact_rounding` by the public option: half precision is rounded after every operation, as in eager, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.config import config

HALVES = [torch.bfloat16, torch.float16]


def chain(x: torch.Tensor) -> torch.Tensor:
    return ((x * 3.1 + 0.7) * x - x / 3) * 1.3


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "arithmetic": chain,
    "a scalar's rounding": lambda x: (x + 0.1) * 0.1 - 0.3,
    "addcmul": lambda x: torch.addcmul(x, x, x + 1, value=0.3) * 1.7,
    "where and clamp": lambda x: torch.where(x > 0.3, x * 1.1, x - 0.1).clamp(-0.7, 0.7) * 3.3,
    "a reduction between": lambda x: (x * 1.1).amax(-1, keepdim=True) * 0.7 + x,
    "back and forth": lambda x: (x.float() * 1.7).to(x.dtype) * 1.3 + x,
    "leaky relu": lambda x: F.leaky_relu(x * 1.7, 0.1) * 0.9,
    "hardswish": lambda x: F.hardswish(x * 1.7) * 0.9,
    "lerp": lambda x: torch.lerp(x, x * 3, 0.3) * 1.1,
    "views": lambda x: (x * 1.1).t().reshape(-1) * 1.3 - 0.2,
    "in place": lambda x: x.clone().mul_(1.1).add_(0.3).div_(0.7),
}


def values(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(40, 50, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_eagers(name: str, dtype: torch.dtype) -> None:
    function = PROGRAMS[name]
    compiled = minicompile.compile(function, fullgraph=True, options={"exact_rounding": True})
    x = values(dtype)
    assert torch.equal(compiled(x), function(x))


@pytest.mark.parametrize("dtype", HALVES)
def test_without_the_option_rounding_is_rarer(dtype: torch.dtype) -> None:
    """Which also shows that the option is not ignored, and that the two are different entries of the cache."""
    x = values(dtype)
    exact = minicompile.compile(chain, options={"exact_rounding": True})
    loose = minicompile.compile(chain)
    for _ in range(2):
        assert torch.equal(exact(x), chain(x))
        assert not torch.equal(loose(x), chain(x))
    truth = chain(x.double())
    assert (loose(x) - truth).abs().mean() < (exact(x) - truth).abs().mean()


def test_by_the_configuration() -> None:
    x = values(torch.bfloat16)
    with config.patch(exact_rounding=True):
        assert torch.equal(minicompile.compile(lambda x: chain(x) + 0)(x), chain(x) + 0)


def test_gradients() -> None:
    def gradient(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        x = values(torch.bfloat16).requires_grad_()
        function(x).sum().backward()
        assert x.grad is not None
        return x.grad

    assert torch.equal(gradient(minicompile.compile(chain, options={"exact_rounding": True})), gradient(chain))
