"""Whole functions: the demo's scorers and a transformer block; ATen-level graphs; where nodes say they come from."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.graph import Origin
from minicompile.ir.printer import runnable
from minicompile.lowering import lower

from .support import captured, externs


def entropy(f):
    p = torch.softmax(f, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


def query_content(q, c):
    return torch.softmax(q @ c.transpose(-2, -1) / math.sqrt(8), -1)


def salience(x, kx, ky):
    ex, ey = F.conv2d(x, kx, padding=1, groups=3), F.conv2d(x, ky, padding=1, groups=3)
    return torch.sqrt(ex**2 + ey**2 + 1e-8)


def block(x, n1w, n1b, n2w, n2b, wq, bq, wo, bo, w1, b1, w2, b2):
    """A pre-norm transformer block with two heads over (2, 4, 8)."""
    q, k, v = (t.view(2, 4, 2, 4).transpose(1, 2) for t in (
        F.linear(F.layer_norm(x, (8,), n1w, n1b), wq, bq)[..., i : i + 8] for i in (0, 8, 16)))
    x = x + F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 4, 8), wo, bo)
    return x + F.linear(F.gelu(F.linear(F.layer_norm(x, (8,), n2w, n2b), w1, b1)), w2, b2)


def block_inputs() -> list[torch.Tensor]:
    shapes = [(2, 4, 8), (8,), (8,), (8,), (8,), (24, 8), (24,), (8, 8), (8,), (32, 8), (32,), (8, 32), (8,)]
    return [torch.randn(shape) for shape in shapes]


def test_entropy_is_all_kernel(kernel_only):
    graph = kernel_only(entropy, torch.randn(3, 4, 16))
    assert len(graph.nodes) == 13


def test_query_content(check):
    graph = check(query_content, torch.randn(2, 5, 8), torch.randn(2, 5, 8))
    assert externs(graph) == ["aten.bmm.default"]


def test_salience(check):
    graph = check(salience, torch.randn(2, 3, 8, 8), torch.randn(3, 1, 3, 3), torch.randn(3, 1, 3, 3))
    assert externs(graph) == []


def test_the_transformer_block_prints_on_a_screen_and_runs(check):
    inputs = block_inputs()
    graph = passes.run(check(block, *inputs))
    text = str(graph)
    assert len(text.splitlines()) <= 50 and max(map(len, text.splitlines())) < 250
    torch.testing.assert_close(runnable(graph)(*inputs)[0], block(*inputs))
    assert sorted(set(externs(graph))) == [
        "aten._scaled_dot_product_flash_attention_for_cpu.default", "aten.addmm.default", "aten.mm.default",
    ]


@pytest.mark.parametrize("function,shapes", [(entropy, [(3, 16)]), (query_content, [(2, 5, 8), (2, 5, 8)])])
def test_aten_level_graphs(function, shapes):
    """What torch.compile's own frontend hands to a backend through aot_autograd."""
    inputs = [torch.randn(shape) for shape in shapes]
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    graph = passes.run(lower(gm, inputs))
    torch.testing.assert_close(reference.run(graph, *inputs)[0], function(*inputs))


def test_the_origin_of_our_own_frontend():
    gm = captured(torch.exp, torch.ones(2))
    origin = Origin("model.py", 3, "forward", "torch.exp")
    next(node for node in gm.graph.nodes if node.op == "call_function").meta["origin"] = origin
    (node,) = lower(gm, [torch.ones(2)]).nodes
    assert node.origin is origin


def test_the_origin_of_dynamos_graphs():
    gm = captured(torch.exp, torch.ones(2))
    call = next(node for node in gm.graph.nodes if node.op == "call_function")
    frames = ['  File "a.py", line 1, in outer', "    f(x)", '  File "b.py", line 7, in inner', "    torch.exp(x)"]
    call.meta["stack_trace"] = "\n".join(frames)
    (node,) = lower(gm, [torch.ones(2)]).nodes
    assert str(node.origin) == "b.py:7 in inner: torch.exp"


def test_the_graph_has_the_name_it_is_given():
    assert lower(captured(torch.exp, torch.ones(2)), [torch.ones(2)], name="scorer").name == "scorer"


def test_passes_never_make_more_nodes_than_lowering():
    inputs = block_inputs()
    graph = lower(captured(block, *inputs), inputs)
    assert len(passes.run(graph).nodes) <= len(graph.nodes)
