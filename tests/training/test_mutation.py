"""What a training graph writes: buffers, activations, parameters under `no_grad`, and what eager refuses then."""

from __future__ import annotations

import pytest
import torch

import minicompile

from .support import assert_gradients, check, const, differentiable, leaf, run_backward


def write_parameterised(buffer, w):
    buffer.mul_(w)
    return buffer.sum() * 2


def write_without_gradient(buffer, w):
    buffer.add_(1)
    return (w * buffer).sum()


def write_under_no_grad(x, w):
    with torch.no_grad():
        w.clamp_(-0.5, 0.5)
    return x * w


def write_a_row_under_no_grad(x, w):
    with torch.no_grad():
        w.mul_(2)
        w[0].zero_()
        w[1:, 2].clamp_(-0.5, 0.5)
    return x * w


def write_through_detach(x, w):
    w.detach().mul_(2)
    return x * w


def write_a_row(buffer, w):
    buffer[0] = w.sum()
    buffer[1].add_(w.mean())
    return buffer.exp(), buffer[0]


@pytest.mark.parametrize("function", [write_parameterised, write_without_gradient, write_a_row])
def test_mutated_buffers(function) -> None:
    check(function, const(3, 4), leaf(3, 4))


@pytest.mark.parametrize("function", [write_under_no_grad, write_a_row_under_no_grad, write_through_detach])
def test_mutation_that_autograd_does_not_see(function) -> None:
    check(function, leaf(3, 4), leaf(3, 4))


@pytest.mark.parametrize("function", [write_parameterised, write_without_gradient, write_a_row])
def test_mutated_activations(function) -> None:
    """The mutated argument has a history of its own."""
    results = []
    compiled = minicompile.compile(function, fullgraph=True)
    for run in (compiled, function):
        source, w = leaf(3, 4), leaf(3, 4)
        x = source * 2
        outputs = run(x, w)
        (x.sum() + sum(out.sum() for out in differentiable(outputs))).backward()
        results.append((source.grad, w.grad, x.detach()))
    assert_gradients(*results)


def test_a_view_of_a_mutated_input_is_returned() -> None:
    def function(x, w):
        x.mul_(w)
        return x.view(-1), x

    results = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        source, w = leaf(3, 4), leaf(3, 4)
        x = source * 2
        flat, same = run(x, w)
        assert same is x
        flat.mul_(2)
        (flat.sum() + x.exp().sum()).backward()
        results.append((source.grad, w.grad, x.detach()))
    assert_gradients(*results)


def test_what_eager_does_not_keep_may_change_in_place() -> None:
    """relu keeps its result and not its argument: both the argument and a sum made of it may be overwritten."""

    def function(x, w):
        h = w @ w
        return h, torch.relu(h) * w, torch.relu(x) + 1

    results = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        source, w = leaf(4, 4), leaf(4, 4)
        x = source * 2
        outputs = run(x, w)
        with torch.no_grad():
            x.zero_()
            for out in outputs:
                out.zero_()
        run_backward(outputs)
        results.append((source.grad, w.grad))
    assert_gradients(*results)


def test_eager_s_refusal_to_run_backward_is_kept() -> None:
    def function(x):
        y = x.exp()
        y.mul_(2)
        return y

    with pytest.warns(RuntimeWarning, match="modified by an inplace operation"):
        result = minicompile.compile(function)(leaf(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_activations_in_place() -> None:
    def function(x, w):
        h = x @ w
        h += 1
        torch.relu_(h)
        return torch.nn.functional.dropout(h * 2, 0.5, inplace=True).sum(-1)

    check(function, leaf(3, 4), leaf(4, 5))
