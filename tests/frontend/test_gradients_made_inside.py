"""Classes over `torch.autograd.Function` that a program makes in a call, and torch.masked, which makes some."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import Function

import minicompile

from .programs import Programs

X = torch.arange(6.0).reshape(2, 3) - 2
ONE_GRAPH, BROKEN = Programs(), Programs()


@ONE_GRAPH.program()
def reads_variables(x):
    k, t = 2.0, x.detach() * 3

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.n = n
            return x * k + n

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * k * t + ctx.n * x, None

    return Scaled.apply(x, 3) + Scaled.apply(x * 2, 4)


@ONE_GRAPH.program()
def masked_reductions(x):
    m = x > 0
    return torch.masked.sum(x, mask=m) + torch.masked.mean(x, mask=m) * torch.masked.amax(x, 1, mask=m).sum()


@ONE_GRAPH.program()
def masked_softmax(x):
    m = x > -2
    return torch.masked.softmax(x, 1, mask=m) * torch.masked.var(x, 1, mask=m)[:, None] + torch.masked.normalize(x, 2.0, 1, mask=m)


@ONE_GRAPH.program()
def retained_where_nobody_asks(x):
    y = x * 2
    for tensor in (x, y):
        if tensor.requires_grad:
            tensor.retain_grad()
    return (y * y).sum()


@BROKEN.program()
def retained_and_asked_for(x):
    y = x * 2
    if y.requires_grad:
        y.retain_grad()
        (y * y).sum().backward()
        return x * 2 + y.grad
    return x * 2


@BROKEN.program()
def variable_set_again(x):
    k = 2.0

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * k

    y = Scaled.apply(x)
    k = 3.0
    return y


@BROKEN.program()
def list_changed(x):
    s = [2.0]

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            s.append(1)
            return g * s[0]

    y = Scaled.apply(x)
    s[0] = 7.0
    return y


@BROKEN.program()
def class_attribute_changed(x):
    class Scaled(Function):
        factor = 5.0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * Scaled.factor

    y = Scaled.apply(x)
    Scaled.factor = 7.0
    return y


def _results(fn: Any) -> tuple[Any, ...]:
    x = X.clone().requires_grad_()
    y = fn(x)
    y.sum().backward()
    return y.detach(), x.grad


def _check(program: Any, **options: Any) -> None:
    fn, _ = program
    compiled = minicompile.compile(fn, **options)
    for _ in range(2):
        torch.testing.assert_close(_results(compiled), _results(fn))
    with torch.no_grad():
        torch.testing.assert_close(compiled(X), fn(X))


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str, backend: str) -> None:
    _check(ONE_GRAPH[name], backend=backend, fullgraph=True)


@pytest.mark.parametrize("name", BROKEN)
def test_what_backward_reads_may_have_changed(name: str) -> None:
    _check(BROKEN[name], backend="eager")


@pytest.mark.parametrize("fn", [torch.masked.var, torch.masked.std])
def test_masked_variance(fn: Any) -> None:
    """Of floats it is a graph; of integers the last bit is eager's, because eager computes it."""
    compiled = minicompile.compile(lambda x: fn(x, 1))
    x = torch.randint(-9, 9, (30, 7))
    assert torch.equal(compiled(x), fn(x, 1)) and not compiled.entries[0].graphs
    torch.testing.assert_close(minicompile.compile(lambda x: fn(x, 1), fullgraph=True)(x + 0.5), fn(x + 0.5, 1))
