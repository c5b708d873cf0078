"""Mutation and aliasing: what eager writes, shares and returns, the graph writes, shares and returns."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from minicompile import passes
from minicompile.config import config
from minicompile.ir import reference
from minicompile.ir.graph import BufferView, Graph, InputView, Node
from minicompile.lowering import LoweringError, lower

from .support import captured, lowered, same_layout


def x34() -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4)


def view_mutation(x):
    x.view(-1)[2:5].mul_(10)
    return x.sum()


def column_mutation(x):
    x[:, 1].fill_(7)
    return x


def mutation_through_a_transposed_view(x):
    x.t()[0].add_(1)
    return x.t()


def mutation_of_an_intermediate(x):
    y = x + 1
    y[0].zero_()
    return y


def mutation_after_reading(x):
    before = x * 2
    x.add_(1)
    return before, x * 2


MUTATIONS = {
    "add_": lambda x: x.add_(1),
    "sum_after_relu_": lambda x: x.sub_(5).relu_().sum(),
    "copy_": lambda x: x.copy_(x.flip(0)),
    "view": view_mutation,
    "column": column_mutation,
    "transposed": mutation_through_a_transposed_view,
    "intermediate": mutation_of_an_intermediate,
    "after_reading": mutation_after_reading,
    "clamp_": lambda x: (x.clamp_(1, 3), None),
    "detach": lambda x: x.detach().mul_(2).sum(),
    "into_view": lambda x: x[1:].copy_(x[:-1].clone()),
    "masked_fill_": lambda x: x.masked_fill_(x > 3, 0.0),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([1]), 9.0),
    "two_views": lambda x: (x[0].add_(1), x[0].mul_(3), x[1]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation(check, name):
    check(MUTATIONS[name], x34())


def test_two_inputs_only_one_written(check):
    graph = check(lambda x, y: y.add_(x), x34(), x34())
    assert [index for index, _ in graph.writes] == [1]


def test_in_place_promotion_keeps_the_dtype_of_the_input(check):
    check(lambda x, y: x.mul_(y), x34().bfloat16(), x34())


def test_setitem(check):
    """`x[0] = 5`, as a frontend puts it into the graph."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(operator.setitem, (x, 0, 5.0))
    graph.output((x,))
    value = x34()
    (result,) = reference.run(lower(torch.fx.GraphModule({}, graph), [x34()]), value)
    assert result is value and value[0].tolist() == [5.0] * 4


# --- identity and sharing -------------------------------------------------------------------------------------------


def results_of(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[Graph, list[Any], list[Any]]:
    """The optimised graph, inputs, outputs."""
    graph = passes.run(lowered(function, *inputs))
    ours = same_layout(inputs)
    return graph, ours, list(reference.run(graph, *ours))


def share_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.add_(1), lambda x: (x.t(), x)[1]])
def test_an_output_that_is_the_input_is_the_input(function):
    _, (x,), (y,) = results_of(function, x34())
    assert y is x


@pytest.mark.parametrize("function", [
    lambda x: x.t(), lambda x: x.view(12), lambda x: x[1:, ::2], lambda x: x.detach(), lambda x: x.expand(2, 3, 4),
    lambda x: x.view_as(x), lambda x: x.diagonal(), lambda x: x.unfold(1, 2, 1), lambda x: x.add_(1)[2],
    lambda x: x.as_strided((2, 2), (1, 4), 2),
])
def test_an_output_that_is_a_view_of_the_input_shares_its_memory(check, function):
    check(function, x34())
    graph, (x,), (y,) = results_of(function, x34())
    assert isinstance(graph.outputs[0], InputView)
    assert share_memory(x, y) and y is not x


def test_views_of_inputs_start_from_where_the_input_starts():
    base = torch.arange(20.0)
    graph = lowered(lambda x: x[1:], base[5:10])
    (result,) = reference.run(graph, base[5:10])
    assert result.tolist() == [6.0, 7.0, 8.0, 9.0] and share_memory(result, base)


@pytest.mark.parametrize("function", [
    lambda x: x.clone(), lambda x: x * 1, lambda x: x.t().contiguous(), lambda x: x + 0,
])
def test_a_copy_shares_nothing(function):
    _, (x,), (y,) = results_of(function, x34())
    assert not share_memory(x, y)


def test_equal_outputs_computed_twice_are_two_tensors():
    """Common subexpressions may be computed once, but stay two tensors to whoever writes into one of them."""
    _, _, (a, b) = results_of(lambda x: (x + 1, x + 1), x34())
    assert not share_memory(a, b)


def computed_twice(x):
    a, b = x + 1, x + 1
    return a, b, a.view(-1), b.view(-1)


def computed_three_times(x):
    return [part for _ in range(3) for part in (x * 2).chunk(2)]


def made_twice(x):
    return *torch.ones(6).split(3), *torch.ones(6).split(2), x + 1


def the_same_in_the_end(x):
    a, b = x + 1, (x + 1) * 1
    return a, a[0], b, b[0], x + 1


@pytest.mark.parametrize("function", [computed_twice, computed_three_times, made_twice, the_same_in_the_end])
def test_memory_is_shared_by_those_that_eager_has_share_it(function):
    results, expected = minicompile.compile(function)(x34()), function(x34())
    assert pattern(results) == pattern(expected)
    for result, other in zip(results, expected, strict=True):
        assert torch.equal(result, other)


def pattern(tensors):
    """For each tensor, the first one that shares its memory."""
    return [next(j for j, other in enumerate(tensors) if share_memory(one, other)) for one in tensors]


def test_outputs_that_share_memory():
    def function(x):
        y = x + 1
        return y, y.t(), y[1], y, x.t()

    graph, (x,), (y, transposed, row, again, input_view) = results_of(function, x34())
    assert again is y and share_memory(transposed, y) and share_memory(row, y) and share_memory(input_view, x)
    assert torch.equal(row, x[1] + 1) and torch.equal(transposed, (x + 1).t())
    assert all(isinstance(out, BufferView) for out in graph.outputs[:4])


def test_outputs_that_share_a_hidden_base(check):
    check(lambda x: (x * 2).chunk(2, 1), x34())
    _, _, (a, b) = results_of(lambda x: (x * 2).chunk(2, 1), x34())
    assert share_memory(a, b)


def test_shared_outputs_after_mutation(check):
    def function(x):
        y = x + 1
        row = y[0]
        y.mul_(2)
        return y, row

    check(function, x34())
    _, _, (y, row) = results_of(function, x34())
    assert share_memory(y, row)


def test_outputs_that_are_no_tensors(check):
    check(lambda x: (x + 1, None, 3, 2.5, True), x34())


def test_writes_happen_after_outputs_are_computed(check):
    graph = check(lambda x: (x + 1, x.add_(5))[0], x34())
    assert isinstance(graph.outputs[0], Node) and len(graph.writes) == 1


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function,x,message", [
    (lambda x: x.t_(), x34(), "changed in place"),
    (lambda x: torch._neg_view(x.conj()), x34().to(torch.complex64), "lazy bits"),
], ids=["metadata", "lazy_bits"])
def test_refused_by_name(function, x, message):
    with pytest.raises(LoweringError, match=message):
        lowered(function, x)


def test_a_mutated_constant_is_refused():
    graph = torch.fx.Graph()
    graph.placeholder("x")
    constant = graph.get_attr("table")
    graph.output((graph.call_method("add_", (constant, 1)),))
    module = torch.fx.GraphModule({"table": torch.ones(2)}, graph)
    with pytest.raises(LoweringError, match="constant table"):
        lower(module, [x34()])
    assert module.table.tolist() == [1.0, 1.0]


def test_constants_are_read():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_method("add", (x, graph.get_attr("table"))),))
    module = torch.fx.GraphModule({"table": torch.arange(4.0)}, graph)
    (result,) = reference.run(lower(module, [x34()]), x34())
    assert torch.equal(result, x34() + torch.arange(4.0))


def test_lowering_leaves_the_real_example_inputs_alone():
    x = x34()
    lower(captured(lambda x: x.add_(1), x), [x])
    assert torch.equal(x, x34())


# --- random numbers -------------------------------------------------------------------------------------------------


def random_pair(x):
    torch.rand_like(x)  # nobody reads it, but it moves the generator on
    a, b = torch.rand_like(x), torch.rand_like(x)
    return a - b


@pytest.mark.parametrize("function", [
    random_pair, lambda x: torch.nn.functional.dropout(x, 0.5), lambda x: torch.bernoulli(x / 12) + torch.randn_like(x),
])
def test_random_numbers_can_be_eagers_in_eagers_order(function):
    with config.patch(fallback_random=True):
        graph = passes.run(lowered(function, x34()))
    torch.manual_seed(3)
    (actual,) = reference.run(graph, x34())
    torch.manual_seed(3)
    torch.testing.assert_close(actual, function(x34()))


def test_a_hidden_write_is_found_inside_an_opaque_function():
    """ATen's batch norm does not say that it writes its statistics; no name in the graph hints at it here."""

    def opaque(x, mean, variance):
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    graph = torch.fx.Graph()
    graph.output((graph.call_function(opaque, tuple(map(graph.placeholder, ("x", "mean", "variance")))),))
    inputs = [torch.randn(4, 3), torch.zeros(3), torch.ones(3)]
    lowered_graph = lower(torch.fx.GraphModule({}, graph), inputs)
    ours, theirs = same_layout(inputs), same_layout(inputs)
    torch.testing.assert_close(reference.run(lowered_graph, *ours)[0], opaque(*theirs))
    torch.testing.assert_close(ours, theirs)


def test_a_failure_under_autocast_leaves_autocast_off():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    graph.output((graph.call_function(torch.mm, (x, x)),))
    with pytest.raises(LoweringError, match="does not run on fake tensors"):
        lower(torch.fx.GraphModule({}, graph), [x34()])
    assert not torch.is_autocast_enabled("cpu")


def test_a_call_that_returns_nothing_is_kept_and_acts():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._assert_async, (graph.call_method("any", (x,)), "all zero"))
    graph.output((graph.call_function(torch.neg, (x,)),))
    lowered_graph = passes.run(lower(torch.fx.GraphModule({}, graph), [x34()]))
    assert torch.equal(reference.run(lowered_graph, x34())[0], -x34())
    with pytest.raises(RuntimeError, match="all zero"):
        reference.run(lowered_graph, torch.zeros(3, 4))


def test_grad_mode_calls_and_inputs_that_require_grad():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.call_method("add_", (graph.call_method("view", (x, -1)), 1))
    graph.output((graph.call_function(torch.exp, (x,)),))
    lowered_graph = lower(torch.fx.GraphModule({}, graph), [x34().requires_grad_()])
    value = x34()
    torch.testing.assert_close(reference.run(lowered_graph, value)[0], (x34() + 1).exp())
    assert torch.equal(value, x34() + 1) and torch.is_grad_enabled()
