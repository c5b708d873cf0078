"""Every rule of the verifier: a graph that breaks it is refused with a message that names it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from minicompile.ir.graph import Graph, InputView, Node, Origin
from minicompile.ir.verifier import VerifyError, verify

from .builders import CPU, Build, tensor_type

F32, BOOL, I64 = torch.float32, torch.bool, torch.int64


def graph_of(op: str, operands: list[Any], type: Any, **attrs: Any) -> Graph:
    """One node over inputs of the given types; scalars stay arguments."""
    g = Build()
    args = [g.builder.input(o, f"x{i}") if hasattr(o, "shape") else o for i, o in enumerate(operands)]
    return g.graph(g.builder.add(op, args, type, **attrs))


t = tensor_type
BROKEN = {
    "unknown op": (("frobnicate", [t(2)], t(2)), {}, "op table"),
    "arity": (("add", [t(2)], t(2)), {}, "add has 2 arguments"),
    "shapes": (("add", [t(2, 3), t(3)], t(2, 3)), {}, "have the node's shape"),
    "dtypes": (("add", [t(2), t(2, dtype=I64)], t(2)), {}, "one dtype"),
    "kind": (("exp", [t(2, dtype=I64)], t(2, dtype=I64)), {}, "for dtype kinds"),
    "result": (("eq", [t(2), t(2)], t(2)), {}, "eq of torch.float32 gives torch.bool"),
    "only scalars": (("add", [1, 2], t(2)), {}, "a tensor argument"),
    "where": (("where", [t(2), t(2), t(2)], t(2)), {}, "condition of where"),
    "reduced shape": (("sum", [t(2, 3)], t(2)), {"dims": (1,)}, "stay with size 1"),
    "reduced dims": (("sum", [t(2, 3)], t(2, 1)), {"dims": (1, 0)}, "sorted"),
    "no dims": (("sum", [t(2, 3)], t(2, 3)), {"dims": ()}, "at least one"),
    "reduced dtype": (("sum", [t(2, 3)], t(2, 1, dtype=torch.float64)), {"dims": (1,)}, "keeps the dtype"),
    "reduced kind": (("any", [t(2)], t(1)), {"dims": (0,)}, "for dtype kinds"),
    "cast": (("cast", [t(2)], t(2, dtype=I64)), {"dtype": F32}, "dtype it says"),
    "cast shape": (("cast", [t(2)], t(3, dtype=I64)), {"dtype": I64}, "keeps the shape"),
    "reshape": (("reshape", [t(2, 3)], t(5)), {}, "number of elements"),
    "permute": (("permute", [t(2, 3)], t(3, 2)), {"dims": (0, 0)}, "every dimension once"),
    "permute shape": (("permute", [t(2, 3)], t(2, 3)), {"dims": (1, 0)}, "permutes the shape"),
    "expand": (("expand", [t(2, 3)], t(4, 3)), {}, "widens size 1 only"),
    "expand rank": (("expand", [t(3)], t(4, 3)), {}, "keeps the rank"),
    "slice": (("slice", [t(5)], t(3)), {"dim": 0, "start": 1, "step": 2}, "stays inside"),
    "slice step": (("slice", [t(5)], t(3)), {"dim": 0, "start": 0, "step": 0}, "a step"),
    "view dtype": (("reshape", [t(4)], t(2, 2, dtype=I64)), {}, "a view keeps the dtype"),
    "iota": (("iota", [], t(3)), {"dim": 0}, "iota is int64"),
    "iota dim": (("iota", [], t(3, dtype=I64)), {"dim": 1}, "in range"),
    "constant": (("constant", [], t(3)), {"value": torch.ones(2)}, "its value's type"),
    "extern": (("extern", [t(3)], t(3)), {"target": torch.ops.aten.sin.default}, "kwargs and keywords"),
    "getitem": (("getitem", [t(3), 0], t(3)), {}, "several results"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rule_is_named(name):
    (op, operands, type), attrs, message = BROKEN[name]
    with pytest.raises(VerifyError, match=message):
        verify(graph_of(op, operands, type, **attrs))


def small() -> Graph:
    g = Build()
    x = g.input("x", 2, 3)
    return g.graph(g.exp(g.add(x, 1)))


def test_a_good_graph_is_returned():
    graph = small()
    assert verify(graph) is graph


def test_order():
    graph = small()
    with pytest.raises(VerifyError, match="operands come before"):
        verify(replace(graph, nodes=graph.nodes[::-1]))
    with pytest.raises(VerifyError, match="once in the order"):
        verify(replace(graph, nodes=graph.nodes * 2))


def test_outputs_and_writes():
    graph = small()
    stranger = Node("full", (1,), {}, tensor_type(2))
    with pytest.raises(VerifyError, match="outputs are nodes of the graph"):
        verify(replace(graph, outputs=(stranger,)))
    with pytest.raises(VerifyError, match="InputView names an input"):
        verify(replace(graph, outputs=(InputView(3, tensor_type(2)),)))
    with pytest.raises(VerifyError, match="a write names an input"):
        verify(replace(graph, writes=((1, graph.nodes[0]),)))
    g = Build()
    x = g.input("x", 2, 3)
    with pytest.raises(VerifyError, match="input's shape and dtype"):
        verify(replace(g.graph(g.reduce("sum", x, (1,))), writes=((0, g.builder.nodes[0]),)))


def test_devices():
    other = replace(tensor_type(2), device=torch.device("meta"))
    with pytest.raises(VerifyError, match="one device per node"):
        verify(graph_of("add", [tensor_type(2), other], tensor_type(2)))
    assert CPU == tensor_type(2).device


def test_the_message_says_where_the_node_comes_from():
    g = Build()
    x = g.input("x", 2)
    g.builder.origin = Origin("model.py", 7, "forward", "torch.exp")
    node = g.builder.add("exp", (x, x), tensor_type(2))
    with pytest.raises(VerifyError, match="model.py:7 in forward"):
        verify(g.graph(node))
