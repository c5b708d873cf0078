"""Results of one graph whose gradients are asked for one after the other, as in eager, where each is a graph."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import softplus

import minicompile

X = torch.arange(1.0, 4.0) / 4


def apart(w, x):
    return (x * w).exp().sum(), (x.cos() * w).sin().sum()


def detached(w, x):
    y = (x * w).exp()
    return y.sum(), (y.detach() * w).sin().sum()


def three(w, x):
    return (w * x).sin().sum(), (w + x).exp().sum(), w.tanh().sum()


def shared(w, x):
    y = (x * w).exp()
    return y.sin().sum(), y.cos().sum()


def nothing_kept(w, x):
    return (w * 2).sum(), (w * x).sum(), (w + 1).sum()


def gradients(run, order, between=None):
    """The gradients after each `backward`, and what went wrong."""
    w = X.clone().requires_grad_()
    results, found, errors = run(w, X), [], []
    for place in order:
        try:
            results[place].backward()
        except RuntimeError as error:
            errors.append((len(found), str(error)[:85]))
        found.append(w.grad.clone())
        if between is not None:
            with torch.no_grad():
                between(w)
    return found, errors


def assert_alike(fn, order, **options):
    (found, errors), (expected, refused) = (gradients(f, order, **options) for f in (minicompile.compile(fn), fn))
    assert errors == refused
    torch.testing.assert_close(found, expected)
    return errors


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 0), (1, 0, 1)])
@pytest.mark.parametrize("fn", [apart, detached, shared], ids=lambda fn: fn.__name__)
def test_like_eager(fn, order):
    assert_alike(fn, order)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("fn", [three, nothing_kept], ids=lambda fn: fn.__name__)
def test_three(fn, order):
    assert not assert_alike(fn, order)


def test_changes_in_between_are_errors():
    """What the later results need was changed in place."""

    def squares(w, x):
        return (w * x).sin().sum(), (w * w * x).sum()

    assert "modified by an inplace" in assert_alike(squares, (0, 1), between=lambda w: w.add_(1))[0][1]
    assert not assert_alike(apart, (0, 1), between=lambda w: w.add_(1))


def test_adversaries():
    """A generator and a discriminator, each with its own step."""

    def train(wrap):
        torch.manual_seed(0)
        g, d = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (g, d)]

        def step(z, x):
            fake = g(z)
            loss_d = softplus(d(fake.detach())).mean() + softplus(-d(x)).mean()
            optimizers[1].zero_grad()
            loss_d.backward()
            optimizers[1].step()
            loss_g = softplus(-d(fake)).mean()
            optimizers[0].zero_grad()
            loss_g.backward()
            optimizers[0].step()
            return loss_d.detach(), loss_g.detach()

        run = wrap(step)
        return [run(torch.ones(4, 2) * i, torch.ones(4, 3)) for i in range(3)], g.weight.detach(), d.weight.detach()

    torch.testing.assert_close(train(minicompile.compile), train(lambda fn: fn))
