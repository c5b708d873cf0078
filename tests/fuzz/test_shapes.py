"""A short run of the programs over sizes; `python -m tests.fuzz.shapes` is the long one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .shapes import check, program


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_over_sizes_agree(first: int) -> None:
    found = [check(program(random.Random(seed), 8)) for seed in range(first, first + 20)]
    assert [why for why in found if why] == []


@settings(derandomize=True, max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(choices=st.randoms(use_true_random=False), steps=st.integers(1, 8))
def test_drawn_programs_over_sizes_agree(choices: Any, steps: int) -> None:
    assert check(program(choices, steps)) is None
