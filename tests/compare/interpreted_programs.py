"""The demo's functions with backend="triton" on the CPU, in Triton's interpreter, against eager. Run by
test_triton_programs.py in a process of its own: TRITON_INTERPRET must be set before triton is imported."""

from __future__ import annotations

import pytest
import torch

import minicompile
from minicompile.examples.programs import PROGRAMS
from tests.codegen.checked_addresses import addresses_are_checked  # noqa: F401 - for every test here
from tests.support import assert_same

SMALL = {
    "InformationScorer": lambda x: x[:2, :3, :100],
    "QueryContentScorer": lambda x: x[:2, :5, :40],
    "SalienceScorer": lambda x: x[:1, :, :12, :10],
    "TransformerBlock": lambda x: x[:1, :4],
    "loop_with_print": lambda x: x[:4, :50],
    "branch_on_data": lambda x: x[:4, :50],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_eager(name: str) -> None:
    fn, args = PROGRAMS[name].make("cpu")
    args = tuple(SMALL[name](arg).contiguous() for arg in args)
    compiled = minicompile.compile(fn, backend="triton")
    with torch.no_grad(), minicompile.config.patch(strict=True):
        assert_same(compiled(*args), fn(*args))
    graphs = [graph for entry in compiled.entries for graph in entry.graphs]
    kernels = [kernel for graph in graphs for kernel in graph.compiled.kernels]
    assert kernels and all(kernel.language == "triton" for kernel in kernels)
