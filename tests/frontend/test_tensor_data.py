"""`Tensor.data`, written and set: one graph, eager's numbers, and eager's count of writes, which are none."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import minicompile

from ..support import assert_same
from .programs import Programs

X = torch.arange(8.0).reshape(2, 4) / 8
Compile = Callable[[Any], Any]
WHOLE, BROKEN = Programs(), Programs()
whole, broken = WHOLE.program, BROKEN.program


def layer(value: float = 0.5) -> nn.Linear:
    made = nn.Linear(4, 4)
    with torch.no_grad():
        made.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16 + value)
        made.bias.fill_(value)
    return made


def state(module: nn.Module) -> Any:
    return [(p.detach().clone(), p._version, p.grad) for p in module.parameters()]


@whole()
def moving_average(compiled: Compile) -> Iterator[Any]:
    model, average = layer(1.0), layer(2.0)

    @torch.no_grad()
    def update(decay):
        for p, q in zip(average.parameters(), model.parameters()):
            p.data.mul_(decay).add_(q.data, alpha=1 - decay)

    run = compiled(update)
    for _ in range(3):
        run(0.75)
        yield state(average), state(model)


@whole()
def set_after_the_forward(compiled: Compile) -> Iterator[Any]:
    model = layer()

    def step(x):
        y = model(x)
        for p in model.parameters():
            p.data = p.data * 0.5
        return y

    run = compiled(step)
    for _ in range(2):
        y = run(X)
        yield y.detach(), state(model)


@whole()
def clipped_and_filled(compiled: Compile) -> Iterator[Any]:
    model = layer()

    def clip():
        for p in model.parameters():
            p.data.clamp_(-0.6, 0.6)
            p.data[0] = 0.25

    compiled(clip)()
    yield state(model)


@whole()
def descent(compiled: Compile) -> Iterator[Any]:
    model = layer()

    def update(lr):
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad.data, alpha=-lr)
                p.grad.data.zero_()

    run = compiled(update)
    for _ in range(2):
        model(X).square().sum().backward()
        run(0.125)
        yield state(model)


@whole()
def swapped(compiled: Compile) -> Iterator[Any]:
    def swap(a, b):
        a.data, b.data = b.data, a.data
        return a.data + 1

    run, a, b = compiled(swap), nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
    for _ in range(3):
        yield run(a, b), a.detach().clone(), b.detach().clone(), a.data_ptr() == b.data_ptr()


@whole()
def shared(compiled: Compile) -> Iterator[Any]:
    def share(p, q):
        p.data = q.data
        q.data.add_(1)
        return p.data * 1

    run, p, q = compiled(share), nn.Parameter(X.clone()), nn.Parameter(X.clone())
    for _ in range(2):
        yield run(p, q), p.detach().clone(), q.detach().clone(), p.data_ptr() == q.data_ptr()


@whole()
def views_of_data_and_the_tensor_itself(compiled: Compile) -> Iterator[Any]:
    def write(p):
        flat = p.data.view(-1)
        flat[::2] = 0
        row = p.data[0]
        row += 1
        return p.sum(), flat.sum()

    run, p = compiled(write), nn.Parameter(X.clone())
    for _ in range(2):
        total, flat = run(p)
        total.backward()
        yield total.detach(), flat, p.detach().clone(), p.grad, p._version


@whole()
def an_error_behind_a_write(compiled: Compile) -> Iterator[Any]:
    def write(x, y, places):
        x.data.mul_(3)
        return x * 1, y[places]

    run, x = compiled(write), X.clone()
    for place in (0, 5, 1):
        try:
            yield run(x, X, torch.tensor([place]))
        except IndexError:
            yield "out of range"
        yield x.clone(), x._version


@broken()
def used_after_it_was_set(compiled: Compile) -> Iterator[Any]:
    def use(p, x):
        p.data = x * 2
        return p + 1, p.data

    run, p = compiled(use), nn.Parameter(X.clone())
    for _ in range(2):
        y, data = run(p, X)
        yield y.detach(), y.requires_grad, data.data_ptr() == p.data_ptr(), p.detach().clone()


@broken()
def set_to_another_kind(compiled: Compile) -> Iterator[Any]:
    def change(p, x):
        p.data = x[:1].double()
        return x + 1

    p = nn.Parameter(X.clone())
    yield compiled(change)(p, X), p.detach().clone()


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_like_eager(name: str, backend: str) -> None:
    made: list[Any] = []

    def compiled(fn: Any) -> Any:
        made.append(minicompile.compile(fn, backend=backend, fullgraph=name in WHOLE))
        return made[-1]

    steps, _ = {**WHOLE, **BROKEN}[name]
    for actual, expected in zip(steps(compiled), steps(lambda fn: fn), strict=True):
        assert_same(actual, expected)
    assert bool(made[0].breaks) == (name in BROKEN)
