"""Arguments that share memory, one of them written: what the others show is eager's, under our own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same


def write_then_read(a: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    result = a.exp().add_(x) + y.exp()
    x.add_(1)
    return result, y * 2


def read_write_read(a: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    before = y + a
    x.mul_(3)
    return before, y + a, x.sum()


def write_a_list(a: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    before = y + a
    torch._foreach_mul_([x], 3.0)
    return before, y + a, x.sum()


def one_buffer() -> tuple[Tensor, ...]:
    x = torch.arange(9.0).reshape(3, 3)
    return x.clone(), x, x.view(1, 3, 3)


def one_tensor() -> tuple[Tensor, ...]:
    x = torch.arange(9.0).reshape(3, 3)
    return x, x, x


def overlapping_rows() -> tuple[Tensor, ...]:
    x = torch.arange(12.0).reshape(4, 3)
    return torch.ones(3, 3), x[:3], x[1:]


def apart() -> tuple[Tensor, ...]:
    return torch.ones(3, 3), torch.arange(9.0).reshape(3, 3), torch.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("fn", [write_then_read, read_write_read, write_a_list])
@pytest.mark.parametrize("first", [one_buffer, one_tensor, overlapping_rows, apart])
def test_results_and_memory_are_eagers(fn: Callable[..., Any], first: Callable[[], tuple[Tensor, ...]]) -> None:
    compiled = minicompile.compile(fn)
    for make in (first, one_buffer, one_tensor, overlapping_rows, apart):
        ours, eagers = make(), make()
        assert_same(compiled(*ours), fn(*eagers))
        assert_same(ours, eagers)
