"""`torch.autograd.grad` within a compiled function: one graph, and eager's results and gradients."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import grad

import minicompile

from ..support import assert_same
from .programs import Programs

ONE_GRAPH, BROKEN = Programs(), Programs()
torch.manual_seed(0)
X = torch.rand(4, 4)
W = nn.Parameter(torch.rand(4, 4))
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
CRITIC = nn.Sequential(nn.Conv2d(1, 3, 3), nn.SiLU(), nn.Flatten(), nn.Linear(12, 1))


@ONE_GRAPH.program(W)
def forces(x, w):
    energy = torch.tanh(x @ w).sum()
    return energy.detach(), -grad(energy, x)[0] * w


@ONE_GRAPH.program(W)
def forces_to_train_on(x, w):
    energy = torch.tanh(x @ w).sum()
    (found,) = grad(energy, [x], create_graph=True)
    return energy, -found


@ONE_GRAPH.program(NET)
def residual_of_a_differential_equation(x, net):
    u = net(x)
    (first,) = grad(u, x, torch.ones_like(u), create_graph=True)
    second = grad(first[:, 0].sum(), x, create_graph=True)[0]
    return (second.sum(1, keepdim=True) - u).square().mean()


@ONE_GRAPH.program(CRITIC)
def gradient_penalty(x, critic):
    images = x[:, None, :, None].expand(4, 1, 4, 4) * 1.0
    out = critic(images)
    found = grad(outputs=out, inputs=images, grad_outputs=torch.ones_like(out), create_graph=True, retain_graph=True, only_inputs=True)[0]
    return out.mean() + 10 * ((found.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


@ONE_GRAPH.program(W)
def one_step_of_an_inner_loop(x, w):
    for _ in range(2):
        w = w - 0.1 * grad((x @ w).sin().sum(), w, create_graph=True)[0]
    return (x @ w).pow(2).sum()


@ONE_GRAPH.program(W)
def of_an_intermediate_result(x, w):
    hidden = torch.relu(x @ w)
    loss = (hidden**2).sum()
    return loss, grad(loss, hidden, retain_graph=True)[0], hidden.detach()


@ONE_GRAPH.program(W)
def what_is_not_used(x, w):
    found = grad(torch.sin(x).sum(), (x, w), allow_unused=True)
    return found[0] * w, found[1] is None, grad(x.cos().sum(), (x, w), materialize_grads=True)[1]


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


@ONE_GRAPH.program(W)
def through_a_function_of_the_programs(x, w):
    return grad(Cubed.apply(x * w[0]).sum(), x, create_graph=True)[0].sum() * w


@ONE_GRAPH.program(W)
def behind_a_write(x, w):
    y = x * 2
    y.mul_(w[0])
    return grad(y.pow(3).sum(), x, create_graph=True)[0]


@BROKEN.program(W)
def a_result_that_others_are_computed_from(x, w):
    hidden = torch.tanh(x @ w)
    loss = (hidden**2).sum()
    return hidden, loss, grad(loss, x, create_graph=True)[0]


@BROKEN.program(W)
def a_loss_that_is_used_again(x, w):
    loss = torch.tanh(x @ w).sum()
    found = grad(loss, x, create_graph=True)[0]
    return loss, (found**2).sum() + loss


def _results(fn: Any, other: Any, inner: bool = False) -> tuple[Any, ...]:
    x = X.clone().requires_grad_()
    other = copy.deepcopy(other)
    result = fn(x * 2 if inner else x, other)
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    wanted = [tensor.sum() for tensor in tensors if tensor.requires_grad]
    sum(wanted).backward()  # type: ignore[union-attr]
    parameters = other.parameters() if isinstance(other, nn.Module) else [other]
    return result, x.grad, [parameter.grad for parameter in parameters]


CASES = [(name, inner) for name in ONE_GRAPH for inner in (False, True)]
CASES.remove(("one_step_of_an_inner_loop", True))  # their x might be computed from w
CASES.remove(("what_is_not_used", True))


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize(("name", "inner"), CASES)
def test_one_graph(name: str, backend: str, inner: bool) -> None:
    """`inner`: of a tensor that is itself computed with gradients, outside."""
    fn, (other,) = ONE_GRAPH[name]
    compiled = minicompile.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        assert_same(_results(compiled, other, inner), _results(fn, other, inner), strides=False)


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", BROKEN)
def test_what_would_have_to_be_cut_is_called_for_real(name: str, backend: str) -> None:
    fn, (other,) = BROKEN[name]
    compiled = minicompile.compile(fn, backend=backend)
    for _ in range(2):
        assert_same(_results(compiled, other), _results(fn, other), strides=False)
    assert len(compiled.breaks) == 1 and "goes back through a result" in compiled.breaks[0].reason


def both(x: Any, y: Any) -> Any:
    return grad((x * y).sin().sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_what_was_computed_outside_is_followed_there(backend: str) -> None:
    """One argument is computed from the other: gradients reach it by two ways, of which the frame shows one."""
    compiled = minicompile.compile(both, backend=backend)
    x = X.clone().requires_grad_()
    torch.testing.assert_close(compiled(x, x * 2), both(x, x * 2))
    assert "computed with gradients" in compiled.breaks[0].reason


def test_hooks_of_a_leaf_run() -> None:
    compiled, seen = minicompile.compile(lambda x: grad(x.sin().sum(), x)[0], backend="eager"), []
    x = X.clone().requires_grad_()
    x.register_hook(lambda g: seen.append(g.shape))
    compiled(x)
    assert len(seen) == 1


def test_masks_are_those_of_the_forward() -> None:
    def dropped(x: Any) -> Any:
        y = nn.functional.dropout(x, 0.5)
        return y.detach(), grad(y.sum(), x)[0]

    x = X.clone().requires_grad_()
    y, found = minicompile.compile(dropped, fullgraph=True)(x)
    torch.testing.assert_close(y, x.detach() * found)


def test_errors_are_eagers() -> None:
    compiled = minicompile.compile(lambda x, y: grad(x.sum(), y)[0])
    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        compiled(x, y)
    with pytest.raises(RuntimeError, match="does not require grad"):
        compiled(X, y)
