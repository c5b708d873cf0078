"""Symbolic sizes: one graph for many batch sizes, and both ways in which sizes reach a graph."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import minicompile
from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.types import SizeType
from minicompile.lowering import lower

from ..support import assert_same
from .support import captured, externs


def fake(mode: FakeTensorMode, tensor: torch.Tensor, *dynamic: int) -> torch.Tensor:
    """A fake of `tensor` with the dimensions `dynamic` symbolic."""
    sizes = [DimDynamic.DYNAMIC if i in dynamic else DimDynamic.STATIC for i in range(tensor.dim())]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))


def entropy(f):
    p = torch.softmax(f, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


FUNCTIONS = {
    "entropy": entropy,
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "mean": lambda x: x.mean(0) + x.mean(),
    "variance": lambda x: torch.cat([x.var(0), x.std().reshape(1)]),
    "flatten": lambda x: x.flatten() * 2,
    "transpose": lambda x: x.transpose(0, 1).contiguous() + 1,
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "last": lambda x: x[-1] + x[:1],
    "slice": lambda x: x[1:, 2:].relu(),
    "split": lambda x: x.split(3, -1)[1] * 2,
    "expand": lambda x: x.sum(0, keepdim=True).expand_as(x) - x,
    "add_": lambda x: x.add_(1),
    "view_of_input": lambda x: x[1:].t(),
    "cat": lambda x: torch.cat([x, x]).sum(0),
    "tril": lambda x: x.tril(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_graph_for_several_sizes(name):
    function = FUNCTIONS[name]
    mode = FakeTensorMode(shape_env=ShapeEnv())
    example = torch.randn(5, 6)
    graph = passes.run(lower(captured(function, example), [fake(mode, example, 0)]))
    assert list(graph.symbols.values()) == [5]
    for size in (5, 2, 9):
        x = torch.randn(size, 6)
        ours = x.clone()
        assert_same(reference.run(graph, ours)[0], function(x))
        assert_same(ours, x)


def test_mean_over_a_symbolic_size():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    graph = lower(captured(lambda x: x.mean(), torch.ones(3, 4)), [fake(mode, torch.ones(3, 4), 0, 1)])
    assert externs(graph) == []
    x = torch.randn(7, 2)
    assert_same(reference.run(graph, x)[0], x.mean())


def with_size_placeholder() -> torch.fx.GraphModule:
    """`(x / sqrt(n) + n, n * 2)`, with n an argument of its own, as frontends pass sizes."""
    graph = torch.fx.Graph()
    n, x = graph.placeholder("n"), graph.placeholder("x")
    root = graph.call_function(torch.sym_sqrt, (n,))
    scaled = graph.call_function(torch.add, (graph.call_function(torch.div, (x, root)), n))
    graph.output((scaled, graph.call_function(lambda value: value * 2, (n,)), graph.call_function(torch.zeros, (n,))))
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize("program", [lambda x: x.var(0), lambda x: x[3:].var(0), lambda x: x.var(0, correction=3)])
def test_a_variance_is_a_kernel_of_any_size(program):
    """Of a difference of symbols there may be none, where eager says NaN."""
    x = fake(FakeTensorMode(shape_env=ShapeEnv()), torch.randn(5, 6), 0)
    graph = passes.run(lower(captured(program, torch.randn(5, 6)), [x]))
    assert not externs(graph)
    for rows in (4, 3, 9):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(reference.run(graph, x)[0], program(x), equal_nan=True)


def test_sizes_as_arguments_and_as_scalars():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    example = fake(mode, torch.randn(5, 6), 0)
    graph = lower(with_size_placeholder(), [example.shape[0], example])
    assert isinstance(graph.inputs[0].type, SizeType)
    x = torch.randn(8, 6)
    scaled, doubled, zeros = reference.run(graph, 8, x)
    torch.testing.assert_close(scaled, x / math.sqrt(8) + 8)
    assert doubled == 16 and zeros.tolist() == [0.0] * 8


def test_a_wrong_shape_is_named():
    graph = lower(captured(torch.relu, torch.ones(3, 4)), [torch.ones(3, 4)])
    with pytest.raises(ValueError, match=r"input x0 has shape \(3, 5\)"):
        reference.run(graph, torch.ones(3, 5))


def test_a_decomposition_that_refuses_symbols_is_no_news(capfd):
    """What it has tried is torch's log's business, not the program's stderr's."""
    compiled = minicompile.compile(lambda x: F.pad(x, (1, 1, 2, 2), mode="reflect"), dynamic=True)
    x = torch.randn(2, 3, 6, 7, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad is not None and "failed while" not in capfd.readouterr().err
