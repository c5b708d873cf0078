"""`check(f, *inputs)` and `kernel_only(f, *inputs)`: see support.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minicompile.ir.graph import Graph

from .support import check_function, externs


@pytest.fixture
def check() -> Callable[..., Graph]:
    """Lowered, and lowered and optimised, a function does what eager does."""
    return check_function


@pytest.fixture
def kernel_only() -> Callable[..., Graph]:
    """As `check`, and nothing may stay extern."""

    def run(function: Callable[..., Any], *inputs: torch.Tensor) -> Graph:
        graph = check_function(function, *inputs)
        assert externs(graph) == []
        return graph

    return run
