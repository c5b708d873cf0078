"""Long reductions in two halves: how many kernels they become (interpreted.py says that their values are right)."""

from __future__ import annotations

import pytest
import torch

from minicompile.codegen.fusion import fuse
from minicompile.codegen.plan import lower_units
from minicompile.codegen.prepare import Views, prepare
from minicompile.codegen.split_reductions import split_reductions
from minicompile.codegen.triton_shape import PERSISTENT

from ..lowering.support import lowered


@pytest.mark.parametrize(
    "dims, shape", [((0, 2, 3), (64, 16, 112, 112)), ((0,), (1 << 16, 24)), ((0, 1), (256, 4096)), ((1,), (4, 1 << 17))]
)
def test_a_long_variance_reads_its_operand_once(dims: tuple[int, ...], shape: tuple[int, ...]) -> None:
    graph = prepare(split_reductions(lowered(lambda x: torch.var_mean(x, dims), torch.empty(shape))))
    (source,) = graph.inputs
    lowered_units = lower_units(fuse(graph, Views()).units, graph).values()
    readers = [low.kernel for low in lowered_units if source in low.nodes]
    assert len(lowered_units) == 2 and len(readers) == 1
    size = readers[0].size("reduce")
    assert isinstance(size, int) and size <= PERSISTENT
