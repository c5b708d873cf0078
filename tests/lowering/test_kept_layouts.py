"""Writes to tensors with gaps or turned dimensions: they stay laid out as they are, also for what comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from minicompile.lowering import LoweringError, lower

from ..training.support import check as check_compiled
from .support import captured, lowered


def with_gaps() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4)[:, 1:]


def copies(x):
    x.add_(1)
    return x.contiguous().mul_(5), x.reshape(-1).sub_(3), x.t(), x[:, 1:]


def through_views(x):
    x.t().add_(1)
    x.unsqueeze(0).mul_(2)
    x.detach().sub_(3)
    return x.flatten().add_(1), x


def places(x):
    x.masked_fill_(x > 3, 0.0)
    x[:, 0].fill_(3)
    x[1].copy_(x[0])
    return x.contiguous().add_(1), x * 2


def product(x):
    x.addmm_(torch.ones(3, 2), torch.ones(2, 3))  # not of itself: what eager gives then depends on the processor
    return x.contiguous().add_(1), x


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "returned": lambda x: x.add_(1),
    "turned": lambda x: x.t().relu_(),
    "copies": copies,
    "through views": through_views,
    "places": places,
    "product": product,
}


@pytest.mark.parametrize("made", [with_gaps, lambda: with_gaps().t(), lambda: with_gaps().clone().t()])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(check, name, made):
    check(PROGRAMS[name], made())
    check_compiled(PROGRAMS[name], made(), backward=lambda outputs: None)
    check_compiled(PROGRAMS[name], made(), backward=lambda outputs: None, dynamic=True)


def turned_result(x):
    y = x * 2
    y.masked_fill_(y > 3, 0.5)
    y.scatter_add_(0, torch.zeros_like(y, dtype=torch.long), y * 0.5)
    y.masked_scatter_(y < 1, y * 2)
    return y, y.t().flatten().add_(1), y + 1


def through_a_turned_view(x):
    y = x.contiguous() * 2
    y.t().masked_fill_(y.t() > 3, 0.5)
    y[:, 1:].t().masked_scatter_(y[:, 1:].t() < 1, y * 2)
    return y, y.flatten().add_(1), y.t()


def detached(x):
    y = x.t() * 2
    y.detach().masked_fill_(y > 3, 0.5)
    return y, y.flatten().add_(1)


def turned_in_place(x):
    y = x * 2
    y.t_()
    y.masked_fill_(y > 3, 0.5)
    return y, y.flatten().add_(1)


def shown_again(x):
    y = x * 2
    z = y[...]
    z.masked_fill_(z > 3, 0.5)
    return z.flatten().add_(1), z, y.flatten().add_(1)


RESULTS = {f.__name__: f for f in (turned_result, shown_again, through_a_turned_view, detached, turned_in_place)}


@pytest.mark.parametrize("made", [with_gaps, lambda: with_gaps().t(), lambda: with_gaps().clone().t()])
@pytest.mark.parametrize("name", RESULTS)
def test_what_the_graph_has_made(check, name, made):
    check(RESULTS[name], made())
    check_compiled(RESULTS[name], made(), backward=lambda outputs: None)
    check_compiled(RESULTS[name], made(), backward=lambda outputs: None, dynamic=True)


def test_an_input_through_a_turned_view(check):
    def function(x):
        x.t().masked_fill_(x.t() > 3, 0.5)
        return x.flatten().add_(1), x.view(12).clone(), x

    check(function, torch.arange(12.0).reshape(3, 4))


def test_beside_gradients():
    def function(buffer, w):
        buffer.add_(w)
        before = buffer.contiguous() * 2
        buffer.mul_(w)
        return before, buffer, buffer.t()

    check_compiled(function, with_gaps(), with_gaps().clone().requires_grad_())


def test_a_program_that_turns_a_written_input_is_refused():
    def turned(x):
        x.add_(1)
        x.t_()
        return x * 2

    with pytest.raises(LoweringError, match="changed in place"):
        lowered(turned, with_gaps())


def test_an_input_that_is_only_read_is_asked_nothing():
    """Of symbolic sizes and strides, each question is a guard."""
    env = ShapeEnv()
    symbolic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = FakeTensorMode(shape_env=env).from_tensor(with_gaps(), symbolic_context=symbolic)
    lower(captured(lambda x: x.sum(0), with_gaps()), [x])
    assert not env.guards
