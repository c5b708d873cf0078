"""A short run of the fuzzer by fixed seeds, and one by hypothesis, which shrinks what it finds. `make fuzz`: longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .check import check, program
from .programs import Program, Writer


@pytest.mark.parametrize("first", [0, 1000])
def test_random_programs_agree(first: int) -> None:
    assert [why for _, why in check([program(seed) for seed in range(first, first + 100)])] == []


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
