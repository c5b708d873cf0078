"""Printed graphs: what they look like, and that they run."""

from __future__ import annotations

import pytest
import sympy
import torch
import torch.nn.functional as F

import minicompile
from minicompile.ir import reference
from minicompile.ir.graph import BufferView, InputView, Origin
from minicompile.ir.printer import namespace, runnable
from minicompile.ir.types import SizeType

from .builders import Build, tensor_type


def softmax_graph():
    g = Build()
    x = g.input("x", 2, 3)
    powers = g.exp(g.sub(x, g.reduce("amax", x, (1,))))
    return g.graph(g.div(powers, g.reduce("sum", powers, (1,))))


def test_text():
    assert str(softmax_graph()) == """\
import torch
from minicompile.ir import eager_ops as ops

def graph(x):
    exp_1 = ops.exp(x - ops.amax(x, (1,)))  # f32[2, 3]
    div_1 = exp_1 / ops.sum(exp_1, (1,))  # f32[2, 3]
    return (div_1,)
"""


def test_it_runs():
    x = torch.randn(2, 3)
    torch.testing.assert_close(runnable(softmax_graph())(x)[0], x.softmax(-1))


def test_source_lines_stand_above_their_statements():
    g = Build()
    x = g.input("x", 2)
    g.builder.origin = Origin(__file__, 1, "f", "torch.exp")
    y = g.exp(x)
    g.builder.origin = Origin("<nowhere>", 5, "f", "torch.sin")
    text = str(g.graph(g.sin(y)))
    lines = [line.strip() for line in text.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("# ") and "test_printer.py:1  " in line)
    assert lines[first].endswith('"""Printed graphs: what they look like, and that they run."""')
    assert lines[first + 1].startswith("exp_1 = ops.exp(x)")
    assert lines[first + 2] == "# <nowhere>:5"


def test_sizes_are_read_off_the_inputs():
    n = sympy.Symbol("s0", integer=True, positive=True)
    g = Build()
    x = g.input("x", n, 4)
    graph = g.graph(g.mul(g.reshape(x, (4 * n,)), g.full(2, tensor_type(4 * n))))
    assert "s0 = x.size(0)" in str(graph)
    for size in (2, 5):
        value = torch.randn(size, 4)
        torch.testing.assert_close(runnable(graph)(value)[0], value.flatten() * 2)


def test_a_size_argument_has_its_symbols_name():
    n = sympy.Symbol("s7", integer=True, positive=True)
    g = Build()
    g.builder.input(SizeType(n), "n")
    graph = g.graph(g.iota(0, tensor_type(n, dtype=torch.int64)), n * 2)
    assert "def graph(s7):" in str(graph)
    assert runnable(graph)(3)[0].tolist() == [0, 1, 2] and runnable(graph)(3)[1] == 6


def test_special_scalars_and_names_run():
    g = Build()
    x, other = g.input("lambda", 3), g.input("ops", 3)
    graph = g.graph(g.where(g.eq(x, float("nan")), float("-inf"), g.maximum(other, float("inf"))), True, None)
    result = runnable(graph)(torch.ones(3), torch.ones(3))
    assert result[0].tolist() == [float("inf")] * 3 and result[1:] == (True, None)


def test_views_writes_and_constants():
    g = Build()
    x = g.input("x", 2, 3)
    table = g.builder.add("constant", (), tensor_type(3), value=torch.arange(3.0))
    y = g.add(x, table)
    view = BufferView(y, tensor_type(3), 3)
    outputs = [view, view, BufferView(y, y.tensor), InputView(0, tensor_type(3), 3), InputView(0, x.tensor, 0, True)]
    graph = g.builder.finish(outputs, writes=[(0, g.mul(x, 2))])
    assert set(namespace(graph)) == {"constant_0"}
    for run in (runnable(graph), lambda *args: reference.run(graph, *args)):
        value = torch.ones(2, 3)
        row, again, whole, input_row, same = run(value)
        assert row is again and whole[1].data_ptr() == row.data_ptr() and same is value
        assert row.tolist() == [1.0, 2.0, 3.0] and input_row.tolist() == [2.0] * 3


def test_keyword_tensors_of_externs():
    g = Build()
    x, mask = g.input("x", 1, 1, 2, 2), g.input("mask", 2, 2)
    target = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    types = (tensor_type(1, 1, 2, 2), tensor_type(1, 1, 2))
    node = g.builder.add("extern", (x, x, x, mask), types, target=target, kwargs={}, keywords=("attn_mask",))
    graph = g.graph(g.builder.add("getitem", (node, 0), types[0]))
    value, mask_value = torch.randn(1, 1, 2, 2), torch.tensor([[0.0, float("-inf")], [0.0, 0.0]])
    expected = torch.nn.functional.scaled_dot_product_attention(value, value, value, attn_mask=mask_value)
    torch.testing.assert_close(runnable(graph)(value, mask_value)[0], expected)
    assert "attn_mask=mask" in str(graph)


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (2, 1)])
def test_an_expand_is_printed_only_where_broadcasting_would_not_do_it(shape):
    g = Build()
    x = g.input("x", *shape)
    y = g.add(g.expand(x, (2, 3)), g.expand(x, (2, 3)))
    graph = g.graph(y)
    assert ("expand" in str(graph)) == (shape != (2, 3))
    assert runnable(graph)(torch.ones(shape))[0].shape == (2, 3)


@pytest.mark.parametrize("function", [
    lambda x, n: (x[n:], x[:, 1:n], x[..., :-n] * 2, torch.cat([x[n:], x[:n]])),
    lambda x, n: x[::2, n // 2 :].flip(1),
    lambda x, n: (x[1 : n + 1 : 2], x[n::3].unfold(1, n, 2), torch.roll(x, n, 0), F.pad(x, (n, -1))),
])  # fmt: skip
def test_slices_by_symbolic_sizes_run(function):
    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    compiled(torch.randn(8, 12), 4)
    graph = compiled.entries[0].graphs[0].compiled.ir
    for x, n in ((torch.randn(8, 12), 4), (torch.randn(10, 12), 4), (torch.randn(9, 20), 4)):
        now = {8: x.shape[0], 12: x.shape[1], 4: n}  # by what a symbol was while tracing
        types = [node.type for node in graph.inputs]
        inputs = [now[graph.symbols[type.expr.name]] if isinstance(type, SizeType) else x for type in types]
        results = runnable(graph)(*inputs)
        tensors = [result for result in results if isinstance(result, torch.Tensor)]
        wanted = function(x, n)
        for result, expected in zip(tensors, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(result, expected)
