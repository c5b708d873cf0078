"""Drawings: colours by kind, labels with types and lines, kernels in boxes, files without a `dot` program."""

from __future__ import annotations

import pytest
import torch

from minicompile.ir.dot import COLOURS, fx_to_dot, kind_of, render, to_dot
from minicompile.ir.graph import InputView, Origin
from minicompile.ir.ops import CREATION, GATHER, POINTWISE, REDUCTIONS, SCANS, STRUCTURAL, VIEWS

from .builders import Build, tensor_type


def graph():
    g = Build()
    x = g.input("x", 2, 3)
    g.builder.origin = Origin("some/model.py", 12, "forward", "torch.exp")
    y = g.exp(x)
    total = g.reduce("sum", y, (1,))
    return g.builder.finish([total, InputView(0, tensor_type(3), 3)], writes=[(0, y)])


def test_source():
    source = to_dot(graph()).source
    for text in ("exp\\nf32[2, 3]  24 B\\nmodel.py:12", "sum dims=(1,)", "output 0", "x.copy_", COLOURS["reduction"]):
        assert text in source
    assert "style=dashed" in source  # the view of the input


def test_kernels_are_boxes():
    made = graph()
    source = made.to_dot(dict.fromkeys(made.nodes, "kernel_0")).source
    assert "subgraph cluster_kernel_0" in source and source.count("subgraph") == 1


@pytest.mark.parametrize("ending,magic", [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_pictures(tmp_path, ending, magic):
    path = str(tmp_path / f"g.{ending}")
    assert graph().render(path) == path
    with open(path, "rb") as file:
        assert file.read(len(magic)) == magic


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match="svg, png, pdf"):
        render(graph(), str(tmp_path / "g.bmp"))


def test_labels_are_escaped(tmp_path):
    g = Build()
    x = g.input('we"ird\\name', 2)
    path = str(tmp_path / "g.svg")
    g.graph(g.exp(x)).render(path)
    with open(path) as file:
        assert "ird\\name" in file.read()


def test_fx_graphs(tmp_path):
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in gm.graph.nodes:
        node.meta["example_value"] = torch.ones(2, 3)
    drawing = fx_to_dot(gm)
    assert "torch.relu" in drawing.source and "float32[2, 3]" in drawing.source and "operator.add" in drawing.source
    assert render(drawing, str(tmp_path / "fx.svg")).endswith("fx.svg")


@pytest.mark.parametrize("op", sorted({*POINTWISE, *REDUCTIONS, *SCANS, *VIEWS, *CREATION, *STRUCTURAL, GATHER}))
def test_every_op_has_a_colour(op):
    assert kind_of(op) in COLOURS
