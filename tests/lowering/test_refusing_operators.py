"""What eager refuses because of numbers raises also where nothing reads the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import minicompile

GOOD, BAD = torch.tensor([1, 2]), torch.tensor([1, 9])
UNREAD: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "index": lambda x, i: x[i] * 2,
    "index_put": lambda x, i: x.clone().index_put_((i,), x[:2]),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "index_fill": lambda x, i: x.index_fill(0, i, 3.0),
    "gather": lambda x, i: x.gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x[:2]),
    "take": lambda x, i: x.take(i),
    "embedding": lambda x, i: F.embedding(i, x.reshape(4, 1)),
    "cross_entropy": lambda x, i: F.cross_entropy(x.expand(2, 4), i),
    "floor_divide": lambda x, i: i // (9 - i),
    "remainder": lambda x, i: i % (9 - i),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", UNREAD)
def test_an_unread_result_raises_as_in_eager(name: str, requires_grad: bool) -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        UNREAD[name](x, i)
        return x.sin()

    compiled = minicompile.compile(fn, fullgraph=True)
    x = torch.arange(4.0).requires_grad_(requires_grad)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, GOOD), fn(x, GOOD))
        with pytest.raises((IndexError, RuntimeError)) as expected:
            fn(x, BAD)
        with pytest.raises(expected.type) as met:
            compiled(x, BAD)
        assert str(met.value) == str(expected.value)


def test_nothing_has_been_written_then() -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        x.add_(1)
        x[i]  # noqa: B018
        return x * 2

    compiled = minicompile.compile(fn, fullgraph=True)
    x, y = torch.arange(4.0), torch.arange(4.0)
    torch.testing.assert_close(compiled(x, GOOD), fn(y, GOOD))
    for run, tensor in ((compiled, x), (fn, y)):
        with pytest.raises(IndexError):
            run(tensor, BAD)
    torch.testing.assert_close(x, y)


def test_gradients_of_gradients() -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        x[i]  # noqa: B018
        return (x**3).sum()

    x = torch.arange(4.0).requires_grad_()
    for run in (fn, minicompile.compile(fn, fullgraph=True)):
        (first,) = torch.autograd.grad(run(x, GOOD), x, create_graph=True)
        torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 6 * x.detach())
