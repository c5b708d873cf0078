"""dynamic=True and dynamic=None beside torch.compile's, over the shape programs: the same results, and no more
entries."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import minicompile
from tests.support import assert_same

from ..frontend.test_symbolic_ints import USES
from .test_automatic_dynamic import PROGRAMS, VIEWS

SHAPES = {**{f"{name} (sizes)": fn for name, fn in PROGRAMS.items()}, **VIEWS}
DECIDES = {"range", "list of them", "bits", "power", "divisibility", "comparison", "min and max", "bool"}
"""Where an int decides something: how finely it is asked for differs, and so does the number of entries."""


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dynamic", [True, None])
def test_sizes(name, dynamic):
    fn, counter = SHAPES[name], CompileCounter()
    theirs = torch.compile(fn, backend=counter, dynamic=dynamic)
    ours = minicompile.compile(fn, backend="eager", dynamic=dynamic)
    for rows in (8, 12, 16, 40, 12):
        x = torch.randn(rows, 6)
        expected = theirs(x)
        assert_same(ours(x), expected)
    if counter.frame_count:  # torch.compile does not count what has no graph, as a symbolic text
        least = 2 if name.startswith("text") and dynamic is None else 1
        assert len(ours.entries) <= max(counter.frame_count, least), ours.recompiles


@pytest.mark.parametrize("name", USES)
def test_ints(name):
    fn, counter = USES[name], CompileCounter()
    theirs, ours = torch.compile(fn, backend=counter), minicompile.compile(fn, backend="eager")
    x = torch.arange(3.0)
    for n in (3, 4, 5, 6, 9):
        expected = theirs(x, n)
        assert_same(ours(x, n), expected)
    if name not in DECIDES:
        assert len(ours.entries) <= max(counter.frame_count, 2), ours.recompiles
