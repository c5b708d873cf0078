"""Sizes that depend on data beside torch.compile's under the same options: the same results, and no more graphs."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import minicompile
from minicompile import config

from .test_data_dependent import CAPTURE, PROGRAMS, assert_equals, data

COUNTS = (5, 3, 12, 2, 0, 1)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch._dynamo.config.patch(**CAPTURE), config.patch(**CAPTURE):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_graphs(name):
    fn, counter = PROGRAMS[name], CompileCounter()
    theirs, ours = torch.compile(fn, backend=counter), minicompile.compile(fn)
    results = []
    for count in COUNTS:
        try:
            results.append(theirs(*data(count)))
        except Exception:  # what torch.compile cannot do, eager decides
            results.append(fn(*data(count)))
    torch._dynamo.reset()
    for count, expected in zip(COUNTS, results, strict=True):
        assert_equals(ours(*data(count)), expected)
    if counter.frame_count:
        assert len(ours.entries) <= counter.frame_count, ours.recompiles
