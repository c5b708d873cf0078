"""Passes keep the meaning of random programs: the reference interpreter before and after, bit for bit.

Programs are drawn from the op table over small shapes; inputs hold NaN, infinities, both zeros and extreme integers.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.graph import Graph, Node
from minicompile.ir.ops import POINTWISE, REDUCTIONS
from minicompile.ir.printer import runnable
from minicompile.ir.types import dtype_kind
from minicompile.ir.verifier import verify

from ..ir.builders import Build

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.25, float("inf"), float("-inf"), float("nan")]
DTYPES = [torch.float32, torch.bfloat16, torch.int32, torch.bool]
DIVISIONS = ("floor_divide", "trunc_divide", "remainder", "fmod", "pow")  # integers may raise


def samples(dtype: torch.dtype) -> list[Any]:
    if dtype is torch.bool:
        return [True, False]
    if dtype.is_floating_point:
        return FLOATS
    info = torch.iinfo(dtype)
    return [0, 1, -1, 2, 7, info.min, info.max]


def scalars(dtype: torch.dtype) -> list[Any]:
    return samples(dtype) if dtype is not torch.bfloat16 else [v for v in FLOATS if v != 3.25]


class Program:
    """Draws a graph node by node."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.g = Build()
        self.nodes: list[Node] = [self.g.input(f"x{i}", 2, 3, dtype=dtype) for i, dtype in enumerate(DTYPES)]

    def pick(self, dtype: torch.dtype | None = None) -> Node:
        return self.draw(st.sampled_from([n for n in self.nodes if dtype is None or n.tensor.dtype is dtype]))

    def operand(self, like: Node) -> Any:
        """A node that broadcasts against `like`, of its dtype, or a scalar."""
        shape, dtype = like.tensor.shape, like.tensor.dtype
        fitting = [n for n in self.nodes if n.tensor.dtype is dtype and n.tensor.shape == shape]
        return self.draw(st.one_of(st.sampled_from(fitting), st.sampled_from(scalars(dtype))))

    def step(self) -> None:
        kind = self.draw(st.sampled_from(["pointwise"] * 4 + ["cast", "view", "view", "reduce", "full"]))
        self.nodes.append(getattr(self, kind)())

    def pointwise(self) -> Node:
        x = self.pick()
        letter = dtype_kind(x.tensor.dtype)
        rows = [r for r in POINTWISE.values() if letter in r.kinds and not r.aten]
        rows = [r for r in rows if letter == "f" or r.name not in DIVISIONS]
        row = self.draw(st.sampled_from(rows))
        if row.name == "where":
            condition = self.g.lt(x, self.operand(x)) if letter != "b" else x
            return self.g.where(condition, self.operand(x), x)
        others = [self.operand(x) for _ in range(row.arity - 1)]
        return self.g.pointwise(row.name, *self.draw(st.permutations([x, *others])))

    def cast(self) -> Node:
        """Float to int is left out: what eager makes of NaN and of values out of range is undefined."""
        x = self.pick()
        targets = [d for d in DTYPES if not (x.tensor.dtype.is_floating_point and d is torch.int32)]
        return self.g.cast(x, self.draw(st.sampled_from(targets)))

    def view(self) -> Node:
        x = self.pick()
        rank, shape = x.tensor.rank, x.tensor.shape
        kind = self.draw(st.sampled_from(["flatten", "permute", "slice", "expand", "split"]))
        if kind == "flatten":
            return self.g.reshape(x, (x.tensor.numel,))
        if kind == "permute":
            return self.g.permute(x, self.draw(st.permutations(range(rank))))
        if kind == "expand":
            return self.g.expand(self.g.reshape(x, (*shape, 1)), (*shape, 2)) if rank < 4 else x
        if kind == "split":
            return self.g.reshape(x, (1, *shape)) if rank < 4 else x
        dim = self.draw(st.integers(0, rank - 1))
        return self.g.slice(x, dim, 0, max(1, shape[dim] - 1), 1)

    def reduce(self) -> Node:
        x = self.pick()
        letter = dtype_kind(x.tensor.dtype)
        name = self.draw(st.sampled_from([r.name for r in REDUCTIONS.values() if letter in r.kinds]))
        dims = self.draw(st.sets(st.integers(0, x.tensor.rank - 1), min_size=1))
        return self.g.reduce(name, x, tuple(dims))

    def full(self) -> Node:
        like = self.pick()
        return self.g.full(self.draw(st.sampled_from(samples(like.tensor.dtype))), like.tensor)


@st.composite
def graphs(draw: Any) -> Graph:
    program = Program(draw)
    for _ in range(draw(st.integers(1, 12))):
        program.step()
    return program.g.graph(*program.nodes[-3:])


@st.composite
def inputs(draw: Any) -> list[torch.Tensor]:
    return [
        torch.tensor(draw(st.lists(st.sampled_from(samples(d)), min_size=6, max_size=6)), dtype=d).reshape(2, 3)
        for d in DTYPES
    ]


def assert_identical(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Bit for bit, all NaNs being one."""
    assert actual.dtype is expected.dtype and actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    if actual.dtype.is_floating_point:
        both = ~expected.isnan()
        assert torch.equal(torch.signbit(actual[both]), torch.signbit(expected[both]))


@pytest.mark.parametrize("names", [None, ["fold"], ["algebra"], ["cse"]], ids=str)
@settings(derandomize=True, max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), values=inputs())
def test_passes_keep_the_meaning(names, graph, values):
    verify(graph)
    expected = reference.run(graph, *values)
    for actual, wanted in zip(reference.run(passes.run(graph, names), *values), expected, strict=True):
        assert_identical(actual, wanted)
        assert actual.stride() == wanted.stride()


@settings(derandomize=True, max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), values=inputs())
def test_printed_programs_compute_the_same(graph, values):
    expected = reference.run(graph, *values)
    for actual, wanted in zip(runnable(graph)(*values), expected, strict=True):
        assert_identical(actual, wanted)
