"""`register_hook` inside compiled code: traced where the hook is a function of the gradient, for real elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile

from ..support import assert_same

SCALE = 2.0
CALLS: list[str] = []


def scaled(x, w):
    y = x * w
    y.register_hook(lambda g: g * 3)
    return y.sum()


def before_and_after(x, w):
    y = x * w
    early = y.sin()
    y.register_hook(lambda g: g.clamp(-0.5, 0.5))
    return early.sum() + (y * y).sum()


def twice(x, w):
    y = x * w
    y.register_hook(lambda g: g * 3)
    y.register_hook(lambda g: g + 1)
    return y.exp().sum()


def several(x, w):
    y, z = x * w, x + w
    for t in (y, z):
        t.register_hook(lambda g: g / 2)
    return (y * z).sum()


def an_argument(x, w, k=4.0):
    y = x * w
    y.register_hook(lambda g: g * k)
    return y.sum()


def another_tensor(x, w):
    y, mask = x * w, (x * 2).detach()
    y.register_hook(lambda g: g * mask)
    return y.pow(2).sum()


def of_a_view(x, w):
    y = (x * w).view(-1)
    y.register_hook(lambda g: g.cumsum(0))
    return y.pow(3).sum()


def an_output(x, w):
    y = x * w
    y.register_hook(lambda g: g * 3)
    return y


def loss_and_output(x, w):
    y = (x * w).sin()
    y.register_hook(lambda g: g * 3)
    return y, (y * y).sum()


def returns_none(x, w):
    y = x * w
    y.register_hook(lambda g: None)
    return y.sum()


def then_written(x, w):
    y = x * w
    y.register_hook(lambda g: g * 3)
    y.mul_(2)
    return y.sum()


def through_a_function(x, w):
    def halve(g):
        return g / 2

    y = x * w
    y.register_hook(lambda g: halve(g) + 1)
    return y.sum()


def set_again(x, w):
    k = 2.0
    y = x * w
    y.register_hook(lambda g: g * k)
    k = 5.0
    return y.sum() * k


def set_after_a_break(x, w):
    k = 2.0
    y = x * w
    y.register_hook(lambda g: g * k)
    print(end="")
    k = 5.0
    return y.sum() * k


def reads_a_global(x, w):
    y = x * w
    y.register_hook(lambda g: g * SCALE)
    return y.sum()


def reads_a_list(x, w):
    factors = [2.0]
    y = x * w
    y.register_hook(lambda g: g * factors[0])
    factors[0] = 7.0
    return y.sum()


def reads_a_default(x, w):
    factors = [2.0]
    y = x * w
    y.register_hook(lambda g, f=factors: g * f[0])
    factors[0] = 7.0
    return y.sum()


def a_default(x, w):
    y = x * w
    for k in (2.0, 3.0):
        y.register_hook(lambda g, k=k: g * k)
    return y.sum()


def with_an_effect(x, w):
    y = x * w
    y.register_hook(lambda g: CALLS.append("called"))
    return y.sum()


def removed(x, w):
    y = x * w
    handle = y.register_hook(lambda g: g * 3)
    handle.remove()
    return y.sum()


def handle_returned(x, w):
    y = x * w
    return y.sum(), y.register_hook(lambda g: g * 3)


def on_an_argument(x, w):
    w.register_hook(lambda g: g * 3)
    return (x * w).sum()


def reads_an_argument(x, w):
    y = x * w
    y.register_hook(lambda g: g * x.detach())
    return y.sum()


def kept_by_autograd(x, w):
    y = x * w
    y.register_hook(lambda g: g * 3)
    y.retain_grad()
    return y.sin().sum(), y


def in_a_list(x, w):
    kept = [x * w]
    kept[0].register_hook(lambda g: g * 3)
    return kept[0].exp().sum(), kept


def asked_for_its_gradient(loss, y):
    return torch.autograd.grad(loss, y)


def asked_by_another_hook(loss, y):
    seen = []
    y.register_hook(lambda g: seen.append(g) or g + 1)
    loss.backward()
    return seen


def asked_to_keep_it(loss, y):
    y.retain_grad()
    loss.backward()
    return y.grad


TRACED = [scaled, before_and_after, twice, several, an_argument, another_tensor, of_a_view, returns_none, then_written,
          through_a_function, a_default]  # fmt: skip
FOR_REAL = [set_again, set_after_a_break, reads_a_global, reads_a_list, reads_a_default, with_an_effect, removed,
            handle_returned, on_an_argument, reads_an_argument, an_output, loss_and_output, kept_by_autograd,
            in_a_list]  # fmt: skip


def outcome(function: Any, run: Any) -> Any:
    global SCALE
    CALLS.clear()
    x, w = (torch.linspace(-1, 2, 6).view(2, 3) + k for k in (0, 1))
    x.requires_grad_(), w.requires_grad_()
    result = run(x, w)
    tensors = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, torch.Tensor)]
    SCALE = 10.0
    sum(t.sum() for t in tensors).backward()
    SCALE = 2.0
    return [t.detach() for t in tensors], x.grad, w.grad, list(CALLS)


@pytest.mark.parametrize("function", TRACED + FOR_REAL, ids=lambda function: function.__name__)
def test_hooks(function: Any) -> None:
    compiled = minicompile.compile(function, fullgraph=function in TRACED)
    for _ in range(2):
        assert_same(outcome(function, compiled), outcome(function, function))
    assert bool(compiled.breaks) == (function in FOR_REAL)


def test_a_hook_that_raises_a_different_shape_is_eagers() -> None:
    def wrong(x, w):
        y = x * w
        y.register_hook(lambda g: g[0])
        return y.sum()

    for run in (minicompile.compile(wrong), wrong):
        x = torch.ones(2, 3, requires_grad=True)
        with pytest.raises(RuntimeError, match="size"):
            run(x, torch.ones(2, 3)).backward()


@pytest.mark.parametrize("ask", [asked_for_its_gradient, asked_by_another_hook, asked_to_keep_it])
def test_what_is_asked_of_a_tensor_outside_comes_after_its_hook(ask: Any) -> None:
    results = []
    for call in (minicompile.compile(loss_and_output), loss_and_output):
        x, w = (torch.linspace(-1, 2, 6).view(2, 3).requires_grad_() for _ in range(2))
        y, loss = sorted(call(x, w), key=lambda t: -t.dim())
        results.append((ask(loss, y), x.grad, w.grad))
    assert_same(*results)
