"""Outputs that other outputs are computed from: hooks, retained gradients and gradients between the two are eager's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import minicompile
from minicompile.pipeline import EagerGraph
from minicompile.runtime.chained import ChainedGraph

from ..support import assert_same
from .support import assert_gradients, check

F = nn.functional


def product(x, w):
    y = (x @ w).sin()
    return y, (y * w.sum()).exp()


def chain(x, w):
    a = (x @ w).tanh()
    b = (a * 2).cos()
    c = b @ w + a
    return a, b, c


def with_hidden(x, w):
    """Much that is read later is no output."""
    h, k = x @ w, x.exp()
    y = h.sin() + k
    return y, (y * h).sum() + k.mean()


def parts_of_a_tuple(x, w):
    first, second = (x @ w).chunk(2, 0)
    return first, second, (first * second).sum()


def with_dropout(x, w):
    y = F.dropout(x @ w, 0.5)
    return y, F.dropout(y.relu(), 0.3)


def written_between(x, w):
    y = x @ w
    z = y.exp()
    y.mul_(2)
    return z, y.sin(), y


def writes_an_input(x, w):
    h = x * 2
    y = h + w
    h.add_(y)
    return y, h.cos() + y


def read_after_a_view(x, w):
    y = (x @ w).sin()
    return y, y.view(-1), y.t().exp()


def with_integers(x, w):
    y = x @ w
    return y, y.argmax(1), (y * (y > 0)).sum(), y.detach() + 1


def under_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
    return y, y.float().exp()


def before_no_grad(x, w):
    y = x @ w
    with torch.no_grad():
        k = y.mean()
    return y, (y - k).sin()


def twice_the_same(x, w):
    y = x @ w
    return y, y, y * 2, x


CHAINED = [product, chain, with_hidden, parts_of_a_tuple, with_dropout, written_between, writes_an_input,
           read_after_a_view, with_integers, under_autocast, before_no_grad, twice_the_same]  # fmt: skip


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)


def compiled_as(compiled: Any) -> Any:
    (record,) = [graph for entry in compiled.entries for graph in entry.graphs]
    return record.compiled


@pytest.mark.parametrize("function", CHAINED, ids=lambda function: function.__name__)
def test_gradients(function: Any) -> None:
    compiled = check(function, *arguments())
    assert isinstance(compiled_as(compiled), ChainedGraph), compiled_as(compiled)


@pytest.mark.parametrize("function", [product, chain, with_hidden, parts_of_a_tuple, read_after_a_view])
def test_hooks_and_gradients_between_outputs(function: Any) -> None:
    found = []
    for run in (minicompile.compile(function, fullgraph=True), function):
        x, w = arguments()
        outputs = run(x, w)
        seen: list[torch.Tensor] = []
        outputs[0].register_hook(lambda g: (seen.append(g.clone()), g * 3)[1])  # noqa: B023
        outputs[0].retain_grad()
        between = torch.autograd.grad(outputs[-1].sum(), outputs[0], retain_graph=True)
        sum(out.sum() for out in outputs[1:]).backward()
        found.append([between, seen, outputs[0].grad, x.grad, w.grad])
    assert_same(*found, strides=False)


def test_an_output_written_by_the_caller_before_backward() -> None:
    found = []
    for run in (minicompile.compile(product, fullgraph=True), product):
        x, w = arguments()
        y, z = run(x, w)
        y.detach().zero_()
        try:
            z.sum().backward()
            found.append("fine")
        except RuntimeError as error:
            found.append("modified by an inplace operation" in str(error))
    assert found == [True, True]


def test_inside_a_no_grad_block_of_the_caller() -> None:
    with torch.no_grad():
        check(product, *arguments(), backward=lambda outputs: None)


def test_memory_with_two_names_that_is_written_stays_eager() -> None:
    def shared(x, w):
        h = x * 2
        row = h[0]
        y = row + w
        h.add_(1)
        return y, (y + row).sum(), h.sum() + y.sum()

    compiled = check(shared, *arguments())
    assert isinstance(compiled_as(compiled), EagerGraph)


def test_a_double_backward() -> None:
    found = []
    for run in (minicompile.compile(product, fullgraph=True), product):
        x, w = arguments()
        y, z = run(x, w)
        (g,) = torch.autograd.grad(z.sum() + y.sum(), x, create_graph=True)
        g.pow(2).sum().backward()
        found.append([g.detach(), x.grad, w.grad])
    assert_gradients(*found)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 5))

    def forward(self, x, labels):
        logits = self.body(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def test_loss_and_logits() -> None:
    torch.manual_seed(0)
    eager = Classifier()
    ours = copy.deepcopy(eager)
    compiled = minicompile.compile(ours, fullgraph=True)
    x, labels = torch.randn(7, 6), torch.tensor([0, 1, 2, 3, 4, 0, 1])
    found = []
    for net, run in ((ours, compiled), (eager, eager)):
        optimizer = torch.optim.SGD(net.parameters(), 0.5)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            out = run(x, labels)
            out["logits"].register_hook(lambda g: g * 0.5)
            out["loss"].backward()
            optimizer.step()
            losses.append(out["loss"].detach())
        found.append(losses)
    assert_same(*found)
    graph = compiled_as(compiled)
    assert isinstance(graph, ChainedGraph) and graph.kernels and "part" in graph.describe()


def test_sizes_are_worked_out_in_each_part() -> None:
    def function(x):
        y = x.sin() + x.shape[0] * 2
        return y, (y * y.shape[0]).sum(0) * (x.shape[0] * 2)

    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    for rows in (3, 5, 8):
        found = []
        for run in (compiled, function):
            x = torch.linspace(0, 1, rows * 4).view(rows, 4).requires_grad_()
            y, z = run(x)
            (y.sum() + z.pow(2).sum()).backward()
            found.append([y.detach(), z.detach(), x.grad])
        assert_same(*found)
    assert len(compiled.entries) == 1


@torch.library.custom_op("minicompile_tests::grouped", mutates_args=())
def grouped(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    bounds = [0, *ends.tolist()]
    return torch.cat([x[i:j] @ w[n] for n, (i, j) in enumerate(zip(bounds, bounds[1:], strict=False))])


@grouped.register_fake
def _(x, w, ends):
    return x.new_empty(x.shape[0], w.shape[2])


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _gradients(ctx, g):
    x, w, ends = ctx.saved_tensors
    bounds = [0, *ends.tolist()]
    pairs = list(enumerate(zip(bounds, bounds[1:], strict=False)))
    gx = torch.cat([g[i:j] @ w[n].T for n, (i, j) in pairs])
    return gx, torch.stack([x[i:j].T @ g[i:j] for n, (i, j) in pairs]), None


grouped.register_autograd(_gradients, setup_context=_keep)


def test_an_operator_whose_backward_looks_at_numbers_runs_between_compiled_parts() -> None:
    def experts(x, w, ends):
        h = grouped((x * 2).sin(), w.tanh(), ends)
        return (grouped(h.exp(), w, ends) * x).cos().sum()

    compiled = minicompile.compile(experts, fullgraph=True)
    for ends in ([2, 5, 6], [1, 1, 6]):
        found = []
        for run in (compiled, experts):
            x, w = torch.randn(6, 4, generator=_seeded()), torch.randn(3, 4, 4, generator=_seeded())
            x.requires_grad_()
            w.requires_grad_()
            run(x, w, torch.tensor(ends)).backward()
            found.append([x.grad, w.grad])
        assert_gradients(*found)
    graph = compiled_as(compiled)
    assert isinstance(graph, ChainedGraph) and len(graph.sections) == 5 and len(compiled.entries) == 1
    assert len(graph.kernels) >= 3


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
