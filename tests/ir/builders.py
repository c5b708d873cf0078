"""Short ways to write graphs by hand."""

from __future__ import annotations

from typing import Any

import torch

from minicompile.ir.graph import Graph, GraphBuilder, Node
from minicompile.ir.types import TensorType, contiguous_strides
from minicompile.lowering.emit import Emitter

CPU = torch.device("cpu")


def tensor_type(*shape: Any, dtype: torch.dtype = torch.float32) -> TensorType:
    return TensorType(dtype, shape, contiguous_strides(shape), CPU)


class Build(Emitter):
    """`g = Build(); x = g.input("x", 2, 3); g.graph(g.add(x, 1))`: typed nodes by the lowering's own helpers."""

    def __init__(self) -> None:
        super().__init__(GraphBuilder())

    def input(self, name: str, *shape: Any, dtype: torch.dtype = torch.float32) -> Node:
        return self.builder.input(tensor_type(*shape, dtype=dtype), name)

    def graph(self, *outputs: Any) -> Graph:
        return self.builder.finish(outputs)
