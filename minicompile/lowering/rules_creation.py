"""Rules for tensors made from nothing: constants, ranges, identity matrices.

Uninitialised tensors (`empty`) are zeros here: whatever eager holds, nobody may depend on it.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Node
from ..ir.types import dtype_kind
from .rules import rule


@rule("full.default", "full_like.default", "new_full.default")
def full(c: Any, shape: Any, *rest: Any, **_: Any) -> Node:
    return c.full(rest[-1], c.out)


@rule("scalar_tensor.default")
def scalar_tensor(c: Any, value: Any, **_: Any) -> Node:
    return c.full(value, c.out)


@rule("zeros.default", "zeros_like.default", "new_zeros.default", "zero.default", "empty.memory_format",
      "empty_like.default", "new_empty.default", "empty_strided.default", "new_empty_strided.default",
      "empty_permuted.default")
def zeros(c: Any, *_: Any, **__: Any) -> Node:
    return c.full(0, c.out)


@rule("ones.default", "ones_like.default", "new_ones.default")
def ones(c: Any, *_: Any, **__: Any) -> Node:
    return c.full(1, c.out)


@rule("fill.Scalar", "fill.Tensor")
def fill(c: Any, x: Node, value: Any) -> Node:
    if isinstance(value, Node):
        return c.expand(c.cast(value, c.out.dtype), c.out.shape)
    return c.full(value, c.out)


@rule("arange.start_step")
def arange(c: Any, start: Any, end: Any, step: Any = 1, **_: Any) -> Node:
    return _range(c, start, step)


@rule("arange.start")
def arange_start(c: Any, start: Any, end: Any, **_: Any) -> Node:
    return _range(c, start, 1)


@rule("arange.default")
def arange_end(c: Any, end: Any, **_: Any) -> Node:
    return _range(c, 0, 1)


def _range(c: Any, start: Any, step: Any) -> Node:
    """`start + step * i`, in float64 for floating results, as eager computes them."""
    index = c.iota(0, c.out)
    if dtype_kind(c.out.dtype) == "f":
        index = c.cast(index, torch.float64)
    if step != 1:
        index = c.mul(index, step)
    if start != 0:
        index = c.add(index, start)
    return c.cast(index, c.out.dtype)


@rule("eye.default", "eye.m")
def eye(c: Any, *_: Any, **__: Any) -> Node:
    rows, columns = c.out.shape
    row = c.iota(0, c.out.like(shape=(rows, 1)))
    column = c.iota(1, c.out.like(shape=(1, columns)))
    return c.cast(c.eq(row, column), c.out.dtype)
