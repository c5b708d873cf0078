"""A short run of the fuzzer by fixed seeds, and one by hypothesis, which shrinks what it finds. `make fuzz`: longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minicompile import passes
from minicompile.lowering import lower

from ..lowering.support import captured
from . import rounding
from .batch import Batch
from .check import check, program
from .programs import Program, Writer


@pytest.mark.parametrize("first", [0, 1000])
def test_random_programs_agree(first: int) -> None:
    assert [why for _, why in check([program(seed) for seed in range(first, first + 100)])] == []


@pytest.mark.parametrize("seed", [408936, 621489])
def test_programs_that_once_disagreed(seed: int) -> None:
    """What a seed names changes with what the fuzzer draws: the faults found have tests of their own, in
    codegen/test_cpp_scans.py and codegen/test_extern_results.py."""
    assert check([program(seed)]) == []


def test_sums_that_cancel_may_differ_by_what_their_terms_round_to() -> None:
    rows = torch.tensor([[2.0**31, 3.0, 0.0, -(2.0**31)], [1.0, 2.0, 3.0, 4.0], [torch.inf, 1.0, 0.0, 0.0]])
    bound = rounding.of_sum("sum", rows, 1, keepdim=False)
    assert rounding.of_sum("amax", rows, 1) is None and bound is not None
    wanted = rows.sum(1)
    cases = (((256.0, 0, 0), True), ((1e5, 0, 0), False), ((0, 0.1, 0), False), ((0, 0, -torch.inf), False))
    for changes, agrees in cases:
        assert rounding.within(wanted + torch.tensor(changes), wanted, 2e-5, bound) == agrees


def test_batches_of_several_programs_have_names_of_their_own() -> None:
    """Alike kernels of one program are one call, whose text has a name too."""
    inputs, batch = [torch.randn(3), torch.randn(5)], Batch()
    traced = captured(lambda x, y: (x.exp(), y.exp()), *inputs)
    compiled = [batch.add(passes.run(lower(traced, inputs))) for _ in range(2)]
    batch.build()
    assert all("_x2" in kernel.name for graph in compiled for kernel in graph.kernels)
    for graph in compiled:
        torch.testing.assert_close(graph(*inputs), tuple(x.exp() for x in inputs))


class DrawnChoices:
    """Choices by hypothesis."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


@st.composite
def programs(draw: Any) -> Program:
    with torch.no_grad():
        return Writer(DrawnChoices(draw)).program(draw(st.integers(1, 6)))


@settings(derandomize=True, max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=programs())
def test_drawn_programs_agree(one: Program) -> None:
    assert [why for _, why in check([one])] == []
