"""Views that are made where no gradients are recorded: what they require, and what they share, is eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile

from .support import check


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def of_an_intermediate(x):
    y = x * 2
    with torch.no_grad():
        flat = y.view(-1)
    return y.mean(), flat


def of_what_is_returned_too(x):
    y = x * 2
    with torch.no_grad():
        part, turned = y.view(-1)[3:], y.t()
    return y, part, turned, y.t(), turned.detach()


def of_an_input(x):
    with torch.no_grad():
        flat, bits, halves = x.view(-1), x.view(torch.int32), torch.view_as_complex(x.view(3, 2, 2)).imag
    return flat, bits, halves, x * 2


def written(x):
    y = x * 2
    with torch.no_grad():
        flat = y.view(-1)
        flat.add_(1)
    return y, flat


def read_afterwards(x):
    y = x * 2
    with torch.no_grad():
        flat = y.view(-1)
    return flat * 2, flat


@pytest.mark.parametrize(
    "function", [of_an_intermediate, of_what_is_returned_too, of_an_input, written, read_afterwards],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_views_under_no_grad_are_leaves_that_share_memory(function: Any) -> None:
    x, results = leaf(3, 4), []
    for run in (minicompile.compile(function, fullgraph=True), function):
        mine = x.detach().clone().requires_grad_()
        outputs = run(mine)
        shared = {one.untyped_storage().data_ptr() for one in (mine, *outputs)}
        results.append(([one.requires_grad for one in outputs], [one.detach() for one in outputs], len(shared)))
    assert results[0][0] == results[1][0] and results[0][2] == results[1][2]
    assert all(map(torch.equal, results[0][1], results[1][1]))


def test_a_view_of_an_expanded_input_under_no_grad() -> None:
    def function(x):
        with torch.no_grad():
            turned = x.t()
        return turned, x * 2

    turned, _ = minicompile.compile(function, fullgraph=True)(torch.randn(3).expand(2, 3).detach().requires_grad_())
    assert turned.requires_grad and turned.stride() == (1, 0)


def test_gradients_beside_such_a_view() -> None:
    check(lambda x: of_what_is_returned_too(x)[0], leaf(3, 4))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_view_that_is_detached_requires_nothing_where_no_gradients_are_recorded(mode: Any) -> None:
    def function(x):
        return x.view(-1), x.detach(), x.detach()[1:], x.data.view(torch.int32), x

    x = leaf(3, 4)
    with mode():
        for run in (minicompile.compile(function, fullgraph=True), function):
            assert [out.requires_grad for out in run(x)] == [True, False, False, False, True]
