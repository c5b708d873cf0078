"""Depthwise convolution of a few channels: one multiply-add for each place of the window.

oneDNN's kernels work on blocks of 8 or 16 channels; on an image filter over 1 or 3 of them they are an order of
magnitude slower than a plain loop, which besides fuses with what stands before and behind it. Everything else stays
theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from ..ir.graph import Node
from ..ir.symbols import is_static
from .errors import NotConvertible
from .rules import rule
from .rules_pool import LARGEST
from .rules_window import window

FEW = 8
"""Channels from which oneDNN is faster (measured with 3 × 3 windows; 5 × 5 ones agree)."""


@rule("convolution.default")
def convolution(
    c: Any, x: Node, weight: Node, bias: Node | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Node:  # fmt: skip
    """x: (batch, channels, *sizes), contiguous; weight: (channels, 1, *window)."""
    if transposed or any(step != 1 for step in stride) or not _is_small_filter(x, weight, groups):
        raise NotConvertible("a convolution that oneDNN does better")
    padded = _padded(c, x, padding)
    result = None
    for place in itertools.product(*map(range, weight.tensor.shape[2:])):
        part, factor = padded, weight
        for dim, (at, step) in enumerate(zip(place, dilation, strict=True), 2):
            part = c.slice(part, dim, at * step, c.out.shape[dim])
            factor = c.slice(factor, dim, at, 1)
        term = c.mul(part, c.reshape(factor, (groups, *(1 for _ in place))))
        result = term if result is None else c.add(result, term)
    if bias is not None:
        result = c.add(result, c.reshape(bias, (groups, *(1 for _ in stride))))
    return result  # type: ignore[return-value]


def _is_small_filter(x: Node, weight: Node, groups: int) -> bool:
    """Whether every channel is filtered by itself, there are few of them, and plain loops suit the layout."""
    shape, window_shape = x.tensor.shape, weight.tensor.shape[2:]
    if not all(map(is_static, (shape[1], *weight.tensor.shape))) or x.tensor.rank not in (3, 4):
        return False
    places = 1
    for size in window_shape:
        places *= size
    depthwise = groups == shape[1] == weight.tensor.shape[0] and groups < FEW
    floats = x.tensor.dtype in (torch.float32, torch.float64) and x.tensor.device.type == "cpu"
    return depthwise and floats and x.tensor.is_contiguous and 0 < places <= LARGEST


def _padded(c: Any, x: Node, padding: Sequence[int]) -> Node:
    """Zeros around the image."""
    before = {dim: size for dim, size in enumerate(padding, 2) if size}
    if not before:
        return x
    sizes = zip(x.tensor.shape[2:], padding, strict=True)
    shape = (*x.tensor.shape[:2], *(size + 2 * pad for size, pad in sizes))
    inner, mask = window(c, x, shape, before)
    return c.where(mask, inner, 0)
