"""The reference interpreter's own promises: sizes, strides, sharing, half precision; and a check of the op table."""

from __future__ import annotations

import pytest
import torch

from minicompile.ir import reference
from minicompile.ir.graph import Node
from minicompile.ir.ops import POINTWISE, REDUCTIONS
from minicompile.ir.types import dtype_kind

from .builders import Build, tensor_type

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool]


ROWS = [(name, dtype) for name, row in POINTWISE.items() for dtype in DTYPES if dtype_kind(dtype) in row.kinds]


@pytest.mark.parametrize("name,dtype", ROWS)
def test_every_row_computes_the_dtype_that_it_says(name, dtype):
    row = POINTWISE[name]
    g = Build()
    first = torch.bool if name == "where" else dtype
    inputs = [g.input(f"x{i}", 4, dtype=first if i == 0 else dtype) for i in range(row.arity)]
    graph = g.graph(g.pointwise(name, *inputs))
    values = [torch.ones(4).to(node.tensor.dtype) for node in inputs]
    (result,) = reference.run(graph, *values)
    assert result.dtype is (torch.bool if row.result == "bool" else dtype)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_every_reduction_keeps_dimensions_and_has_its_identity(name):
    row = REDUCTIONS[name]
    dtype = torch.bool if row.kinds == "b" else torch.float32
    x = (torch.randn(3, 4) > 0).to(dtype) if dtype is torch.bool else torch.randn(3, 4)
    result = row.torch(x, (1,), True)
    assert result.shape == (3, 1) and result.dtype is dtype
    identity = torch.full((3, 1), row.identity(dtype), dtype=dtype)
    assert torch.equal(POINTWISE[row.combine].torch(result, identity), result)


def test_half_precision_rounds_after_every_op():
    g = Build()
    x = g.input("x", 1, dtype=torch.bfloat16)
    value = torch.tensor([1.0], dtype=torch.bfloat16)
    (result,) = reference.run(g.graph(g.sub(g.add(x, 2.0**-9), 1.0)), value)
    assert result.item() == 0.0


def test_outputs_have_the_strides_of_their_types():
    g = Build()
    x = g.input("x", 2, 3)
    node = g.exp(x)
    column_major = g.copy(node, node.tensor.like(strides=(1, 2)))
    expanded = g.expand(g.reduce("sum", node, (1,)), (2, 3))
    results = reference.run(g.graph(column_major, expanded), torch.ones(2, 3))
    assert [result.stride() for result in results] == [(1, 2), (1, 0)]


def test_an_unknown_op_is_named():
    g = Build()
    x = g.input("x", 2)
    with pytest.raises(NotImplementedError, match="frobnicate"):
        reference.run(g.graph(g.builder.add("frobnicate", (x,), tensor_type(2))), torch.ones(2))


def test_the_number_of_inputs_is_checked():
    g = Build()
    x: Node = g.input("x", 2)
    with pytest.raises(ValueError, match="1 inputs, got 2"):
        reference.run(g.graph(g.exp(x)), torch.ones(2), torch.ones(2))
