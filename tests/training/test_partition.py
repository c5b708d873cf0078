"""What crosses from forward to backward, what is computed again, and the drawing of the cut."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import minicompile
from minicompile.ir.dot import render
from minicompile.lowering.partition import Split

from .support import check, compiled_graph, leaf

F = nn.functional


def split_of(function, *args, **options) -> Split:
    return compiled_graph(check(function, *args, **options)).split


def saved_shapes(split: Split) -> list[tuple[int, ...]]:
    return sorted(node.tensor.shape for node in split.cut)


def chain(x, w):
    h = x @ w
    return torch.exp(torch.sin(h) * 2 + 1).cos()


def test_a_chain_of_cheap_operations_is_computed_again() -> None:
    """Only the product and the operands of its own backward cross."""
    split = split_of(chain, leaf(8, 4), leaf(4, 16))
    assert saved_shapes(split) == [(4, 16), (8, 4), (8, 16)]
    assert [node.op for node in split.backward.nodes].count("exp") == 1


def test_products_and_reductions_are_not_computed_again() -> None:
    def function(x, w):
        return torch.softmax(x @ w, -1).log()

    split = split_of(function, leaf(8, 4), leaf(4, 16))
    backward = [str(node.attrs.get("target", node.op)) for node in split.backward.nodes]
    assert backward.count("aten.mm.default") == 2, "only the products of backward itself"
    assert "amax" not in backward


def test_random_numbers_are_drawn_once() -> None:
    def function(x, w):
        return F.dropout(x @ w, 0.3) * 2

    graph = compiled_graph(check(function, leaf(8, 4), leaf(4, 16)))
    assert not any(node.attrs.get("effect") for node in graph.split.backward.nodes)
    tight = compiled_graph(check(function, leaf(8, 4), leaf(4, 16), options={"activation_memory_budget": 0.0}))
    assert not any(node.attrs.get("effect") for node in tight.split.backward.nodes)


def dropped_twice(x, w):
    return F.dropout(torch.tanh(F.dropout(x, 0.4) @ w), 0.3) * 2


@pytest.mark.parametrize("budget", [1.0, 0.3, 0.0])
def test_forward_and_backward_have_one_mask(budget: float) -> None:
    """Saved as bits, or computed again from the keys: either way the gradients say which elements were kept."""
    compiled = minicompile.compile(dropped_twice, fullgraph=True, options={"activation_memory_budget": budget})
    found = []
    for _ in range(2):
        x, w = torch.ones(64, 32, requires_grad=True), torch.eye(32, requires_grad=True)
        y = compiled(x, w)
        y.sum().backward()
        kept, inner = y != 0, torch.ones(()).div(0.6)
        slope = (1 - inner.tanh() ** 2) * 2 / 0.7
        assert 0.3 < kept.float().mean() < 0.55
        torch.testing.assert_close(x.grad[kept], slope.div(0.6).expand(x.shape)[kept])
        found.append(y)
    assert not torch.equal(*found)


def test_masks_cross_as_bits() -> None:
    compiled = minicompile.compile(dropped_twice, fullgraph=True)
    compiled(leaf(8, 4), leaf(4, 16)).sum().backward()
    cut = compiled_graph(compiled).split.cut
    assert [node.tensor.shape for node in cut if node.tensor.dtype is torch.bool] == [(8, 4), (8, 16)]
    tight = minicompile.compile(dropped_twice, options={"activation_memory_budget": 0.0})
    tight(leaf(8, 4), leaf(4, 16)).sum().backward()
    split = compiled_graph(tight).split
    assert "philox" in [node.op for node in split.backward.nodes]
    assert [node.tensor.shape for node in split.cut if node.tensor.dtype is torch.int64] == [(2,)]


def test_a_comparison_is_saved_as_bits_rather_than_numbers() -> None:
    def function(x, w):
        return torch.relu((x @ w).exp() - 1).sum(-1)

    split = split_of(function, leaf(8, 4), leaf(4, 16))
    assert split.saved_bytes <= 4 * (8 * 4 + 4 * 16 + 8 * 16)


def mlp(x, a, b, c):
    return F.gelu(F.layer_norm(F.gelu(x @ a) @ b, (32,))) @ c


@pytest.mark.parametrize("budget", [0.0, 0.4, 0.7, 1.0])
def test_the_memory_budget(budget: float) -> None:
    """Gradients do not depend on it, the bytes saved do."""
    args = (leaf(64, 8), leaf(8, 32), leaf(32, 32), leaf(32, 8))
    full = split_of(mlp, *args)
    split = split_of(mlp, *args, options={"activation_memory_budget": budget})
    inputs = sum(arg.numel() * 4 for arg in args)
    assert split.saved_bytes <= max(budget * full.saved_bytes, inputs)


def test_a_budget_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"between 0.0 and 1.0, got 1.5"):
        minicompile.compile(mlp, options={"activation_memory_budget": 1.5})


def test_backward_lets_go_of_saved_tensors() -> None:
    graph = compiled_graph(check(mlp, leaf(64, 8), leaf(8, 32), leaf(32, 32), leaf(32, 8)))
    (backward,) = graph.backward.compiled.values()
    text = backward.wrapper_source
    assert "boxed.clear()" in text
    saved = [str(node.attrs["name"]) for node in graph.split.backward.inputs]
    deleted = " ".join(line for line in text.splitlines() if line.lstrip().startswith("del "))
    assert all(name in deleted for name in saved if name.startswith("saved_"))


def test_backward_nodes_carry_the_forward_s_lines() -> None:
    graph = compiled_graph(check(chain, leaf(8, 4), leaf(4, 16)))
    calls = {node.origin.call for node in graph.split.backward.nodes if node.origin}
    assert "torch.exp (backward)" in calls
    lines = {node.origin.line for node in graph.joint.graph.nodes if node.origin}
    assert lines == {chain.__code__.co_firstlineno + 1, chain.__code__.co_firstlineno + 2}


def test_the_joint_graph_is_drawn(tmp_path: Path) -> None:
    graph = compiled_graph(check(chain, leaf(8, 4), leaf(4, 16)))
    drawing = graph.to_dot()
    assert drawing.source.count('color="#cc0000"') == len(graph.split.cut)
    assert "tangent_0" in drawing.source
    assert Path(render(drawing, str(tmp_path / "joint.svg"))).stat().st_size > 1000
