"""Methods that turn or detach the tensor object itself: calls of the graph for what the frame has made."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.training.support import check

from .conftest import assert_like_eager
from .programs import Programs

X = torch.arange(12.0).reshape(3, 4) / 8
R, W = X.clone().requires_grad_(), (X + 1).requires_grad_()
TURNED, TRAINED = Programs(), Programs()


@TURNED.program(X)
def all_ways(x):
    y = x * 2
    z = y.unsqueeze_(0)
    y.add_(1)
    shapes = [y.shape, y.squeeze_(0).shape, y.t_().shape, y.transpose_(0, 1).shape, y.swapaxes_(0, 1).shape]
    return y, z is y, shapes, y.swapdims_(0, 1).stride(), y.dim()


@TURNED.program(X)
def seen_under_every_name(x):
    rows = [x + 1, x + 2]
    named = {"first": rows[0]}
    for row in rows:
        row.unsqueeze_(1)
    rows[0].add_(1)
    return torch.cat(rows, 1), named, rows[1].shape


@TURNED.program(X)
def a_view_made_before_stays(x):
    y = x + 1
    flat = y.view(-1)
    y.t_()
    flat.mul_(2)
    return y, flat


@TURNED.program(X)
def a_view_of_an_argument(x):
    flat = x.view(-1)
    flat.unsqueeze_(0)
    flat.mul_(2)
    return flat, x


@TURNED.program(X)
def detached(x):
    return (x * 2).detach_() + 1


@TRAINED.program(R, W)
def turned_with_gradients(x, w):
    y = x * w
    y.t_()
    y = y * 2
    y.unsqueeze_(-1)
    return y, y.sum(0)


@TRAINED.program(R, W)
def a_state_that_is_cut_off(x, w):
    state, sums = torch.zeros(3, 4), []
    for _ in range(3):
        state = (state * w + x).tanh()
        sums.append(state.sum())
        state.detach_()
    return sums, state


@TRAINED.program(R, W)
def read_before_it_is_detached(x, w):
    y = x * w
    z = y * 2
    y.detach_()
    return y * w, z, y.requires_grad, y


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.usefixtures("door")
def test_one_graph(name: str) -> None:
    fn, args = TURNED[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


@pytest.mark.parametrize("name", [*TURNED, *TRAINED])
def test_compiled(name: str) -> None:
    fn, args = {**TURNED, **TRAINED}[name]
    check(fn, *args, fullgraph=True)


@pytest.mark.usefixtures("door")
def test_sizes_stay_symbols() -> None:
    def fn(x: Any) -> Any:
        y = x + 1
        y.unsqueeze_(0)
        return y.expand(2, -1, -1), y.shape

    calls = [(torch.ones(rows, 4),) for rows in (3, 4, 5, 6)]
    assert len(assert_like_eager(fn, *calls, fullgraph=True).entries) == 2


@pytest.mark.usefixtures("door")
def test_an_argument_is_turned_between_graphs() -> None:
    assert assert_like_eager(lambda x: x.t_().sum(0), (X,)).breaks
