"""Lower a function, run the IR by the reference interpreter, compare with eager in everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.graph import Graph
from minicompile.ir.printer import runnable
from minicompile.ir.verifier import verify
from minicompile.lowering import lower

from ..support import assert_same


def captured(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    """The torch-level FX graph of a function, as a frontend would hand it over."""
    expected = function(*same_layout(inputs))
    graph = torch.fx.Graph()
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)
    result = function(*(torch.fx.Proxy(graph.placeholder(f"x{i}"), tracer) for i in range(len(inputs))))
    many = isinstance(expected, (tuple, list))
    graph.output(tracer.create_arg(tuple(result[i] for i in range(len(expected))) if many else (result,)))
    return torch.fx.GraphModule({}, graph)


def lowered(function: Callable[..., Any], *inputs: Any) -> Graph:
    return verify(lower(captured(function, *inputs), inputs))


def same_layout(inputs: Any) -> list[Any]:
    """Copies with the same strides."""
    return [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x) for x in inputs]


def run_and_compare(compiled: Callable[..., Any], function: Callable[..., Any], inputs: Any) -> None:
    """Results, and the inputs as left behind, are eager's."""
    ours, theirs = same_layout(inputs), same_layout(inputs)
    results = compiled(*ours)
    expected = function(*theirs)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(results) == len(expected)
    for actual, wanted in zip([*results, *ours], [*expected, *theirs], strict=True):
        assert_same(actual, wanted)


def check_function(function: Callable[..., Any], *inputs: torch.Tensor) -> Graph:
    """Compare before and after the passes, and as printed; returns the graph as lowered."""
    graph = lowered(function, *inputs)
    optimised = passes.run(graph)
    run_and_compare(lambda *args: reference.run(graph, *args), function, inputs)
    run_and_compare(lambda *args: reference.run(optimised, *args), function, inputs)
    run_and_compare(runnable(optimised), function, inputs)
    return graph


def externs(graph: Graph) -> list[str]:
    """The ATen calls in a graph."""
    return [str(node.attrs["target"]) for node in graph.nodes if node.op == "extern"]
