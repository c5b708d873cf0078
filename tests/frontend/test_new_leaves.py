"""Tensors that a compiled function makes and asks the gradients of: `requires_grad_()`, `requires_grad=True`."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import minicompile

from ..support import assert_same
from .programs import Programs

X = torch.arange(6.0).reshape(2, 3) / 4 - 0.5
ONE_GRAPH, BROKEN = Programs(), Programs()


@ONE_GRAPH.program()
def gradient_of_a_copy(x):
    y = x.detach().clone().requires_grad_()
    return torch.autograd.grad((y**3).sum(), y)[0] * 2


@ONE_GRAPH.program()
def gradient_of_what_is_detached(x):
    y = x.detach().requires_grad_(True)
    (g,) = torch.autograd.grad((y.sin() * x.detach()).sum(), [y])
    return g + x


@ONE_GRAPH.program()
def two_steps_inside(x):
    w = torch.ones(3, requires_grad=True)
    loss = ((x.detach() * w) ** 2).sum()
    (g,) = torch.autograd.grad(loss, w)
    v = (w - 0.1 * g).detach().requires_grad_()
    (h,) = torch.autograd.grad(((x.detach() * v) ** 2).sum(), v)
    return x * h, loss.detach(), w.requires_grad, v.is_leaf


@ONE_GRAPH.program()
def second_derivative(x):
    y = x.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad((y**4).sum(), y, create_graph=True)
    (h,) = torch.autograd.grad((g**2).sum(), y)
    return h * x


@ONE_GRAPH.program()
def returned_alone(x):
    return x * 2, (x.detach() + 1).requires_grad_()


@ONE_GRAPH.program()
def returned_detached(x):
    y = (x.detach() + 1).requires_grad_()
    return y, (y * 2).detach(), x.sum()


@ONE_GRAPH.program()
def already(x):
    y = x * 2
    return y.requires_grad_(y.requires_grad), y.requires_grad


@ONE_GRAPH.program()
def with_shared_memory(x):
    t = x.detach() * 2
    l = t.detach().requires_grad_()
    return t, l, x * 2


@ONE_GRAPH.program()
def views_as_leaves(x):
    y = x.detach().view(-1).requires_grad_()
    z = (x.detach() + 1)[0].requires_grad_()
    g, h = torch.autograd.grad((y * y).sum() + z.exp().sum(), (y, z))
    return g, h, y, z


@ONE_GRAPH.program()
def inner_optimisation(x):
    w = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        (g,) = torch.autograd.grad(((w - x.detach()) ** 2).sum(), w)
        with torch.no_grad():
            w -= 0.1 * g
    return w, x * w.detach()


@ONE_GRAPH.program()
def made_of_numbers(x):
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad((w * w * x.detach()).sum(), w)
    return x * g


@BROKEN.program()
def written_to_a_result(x):
    y = torch.zeros(2, 3)
    w = torch.ones(3, requires_grad=True)
    y[0] = w * 2
    return y, x * 2


@BROKEN.program()
def kept_in_a_list(x):
    found = []
    for k in range(2):
        w = torch.full((3,), float(k), requires_grad=True)
        found.append(w)
        found.append(w.detach() * 2)
    return found, x + 1


@BROKEN.program()
def returned_with_history(x):
    y = (x.detach() + 1).requires_grad_()
    return y, y * 3, x * 2


@BROKEN.program()
def backward_inside(x):
    y = (x.detach() + 1).requires_grad_()
    (y**2).sum().backward()
    return y.grad.clone() * x, y


@BROKEN.program()
def result_without_the_leaf(x):
    w = torch.ones(3, requires_grad=True)
    return x + w


@BROKEN.program()
def turned_off(x):
    y = (x.detach() + 1).requires_grad_()
    (g,) = torch.autograd.grad((y * y).sum(), y)
    return y.requires_grad_(False) + g * x


@BROKEN.program()
def gradients_that_can_be_differentiated(x):
    y = x.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    return g


@BROKEN.program()
def made_as_a_parameter(x):
    p = nn.Parameter(torch.ones(3))
    (g,) = torch.autograd.grad((p * x.detach()).sum(), p)
    return x * g


def _results(fn: Any, x: torch.Tensor) -> tuple[Any, ...]:
    result = fn(x)
    tensors = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    kinds = [(t.requires_grad, t.is_leaf, t.data_ptr() == tensors[0].data_ptr()) for t in tensors]
    ends = [t for t in tensors if t.requires_grad]
    if ends:
        sum((t * t).sum() for t in ends).backward()
    return result, kinds, x.grad, [t.grad for t in tensors if t.is_leaf]


def _check(fn: Any, **options: Any) -> Any:
    compiled = minicompile.compile(fn, **options)
    for needs in (True, False, True):
        both = [_results(run, X.clone().requires_grad_(needs)) for run in (compiled, fn)]
        assert_same(*both)
    return compiled


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, backend: str) -> None:
    compiled = _check(ONE_GRAPH[name][0], backend=backend, fullgraph=True)
    assert len(compiled.entries) == 2


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", BROKEN)
def test_what_gradients_would_lead_to_is_made_for_real(name: str, backend: str) -> None:
    _check(BROKEN[name][0], backend=backend)


def test_without_recording() -> None:
    def fn(x: Any) -> Any:
        y = (x + 1).requires_grad_()
        z = y * 2
        with torch.enable_grad():
            (g,) = torch.autograd.grad((y * y).sum(), y)
        return y, z, g

    compiled = minicompile.compile(fn, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(X), fn(X))
