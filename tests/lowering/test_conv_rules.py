"""Depthwise convolutions of few channels become kernels; all others stay ATen's. Values and strides are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile


def externs(graph: Any) -> list[str]:
    return [str(node.attrs["target"]) for node in graph.nodes if node.op == "extern"]


def image(channels: int, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, channels, *sizes, dtype=dtype)


KERNELS: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "plain": (lambda x, w: F.conv2d(x, w, groups=3), [image(3, 7, 9), torch.randn(3, 1, 3, 3)]),
    "bias, padding": (lambda x, w, b: F.conv2d(x, w, b, padding=(1, 2), groups=3),
                      [image(3, 7, 9), torch.randn(3, 1, 3, 5), torch.randn(3)]),
    "same": (lambda x, w: F.conv2d(x, w, padding="same", groups=3), [image(3, 7, 9), torch.randn(3, 1, 3, 4)]),
    "dilation": (lambda x, w: F.conv2d(x, w, dilation=(2, 3), padding=3, groups=2),
                 [image(2, 8, 9), torch.randn(2, 1, 3, 2)]),
    "one channel": (lambda x, w: F.conv2d(x, w, padding=2), [image(1, 6, 6), torch.randn(1, 1, 5, 5)]),
    "one place": (lambda x, w: F.conv2d(x, w, groups=4), [image(4, 3, 3), torch.randn(4, 1, 1, 1)]),
    "no batch": (lambda x, w: F.conv2d(x[0], w, groups=3), [image(3, 5, 5), torch.randn(3, 1, 2, 2)]),
    "line": (lambda x, w, b: F.conv1d(x, w, b, padding=2, groups=3),
             [image(3, 9), torch.randn(3, 1, 5), torch.randn(3)]),
    "double": (lambda x, w: F.conv2d(x, w, groups=3),
               [image(3, 5, 5, dtype=torch.float64), torch.randn(3, 1, 3, 3, dtype=torch.float64)]),
    "view as weight": (lambda x, w: F.conv2d(x, w.transpose(2, 3), groups=3),
                       [image(3, 5, 5), torch.randn(3, 1, 2, 3)]),
}  # fmt: skip

LEFT: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "not depthwise": (lambda x, w: F.conv2d(x, w), [image(3, 5, 5), torch.randn(3, 3, 3, 3)]),
    "two results a channel": (lambda x, w: F.conv2d(x, w, groups=3), [image(3, 5, 5), torch.randn(6, 1, 3, 3)]),
    "many channels": (lambda x, w: F.conv2d(x, w, groups=16), [image(16, 5, 5), torch.randn(16, 1, 3, 3)]),
    "stride": (lambda x, w: F.conv2d(x, w, stride=2, groups=3), [image(3, 5, 5), torch.randn(3, 1, 3, 3)]),
    "large window": (lambda x, w: F.conv2d(x, w, groups=3), [image(3, 9, 9), torch.randn(3, 1, 7, 7)]),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, groups=3), [image(3, 5, 5), torch.randn(3, 1, 3, 3)]),
    "channels last": (lambda x, w: F.conv2d(x, w, groups=3),
                      [image(3, 5, 5).contiguous(memory_format=torch.channels_last), torch.randn(3, 1, 3, 3)]),
    "volume": (lambda x, w: F.conv3d(x, w, groups=3), [image(3, 4, 4, 4), torch.randn(3, 1, 2, 2, 2)]),
    "half": (lambda x, w: F.conv2d(x, w, groups=3),
             [image(3, 5, 5, dtype=torch.bfloat16), torch.randn(3, 1, 3, 3, dtype=torch.bfloat16)]),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_small_filters_are_kernels(check: Any, name: str):
    function, inputs = KERNELS[name]
    assert externs(check(function, *inputs)) == []


@pytest.mark.parametrize("name", LEFT)
def test_other_convolutions_are_left(check: Any, name: str):
    function, inputs = LEFT[name]
    assert externs(check(function, *inputs)) == ["aten.convolution.default"]



@pytest.mark.parametrize("name", ["plain", "bias, padding", "same", "dilation"])
def test_small_filters_over_images_of_any_size(name: str):
    """The first call's kernels serve the others: only channels and window must be known."""
    function, (x, *others) = KERNELS[name]
    compiled = minicompile.compile(function)
    for shape in (x.shape, (3, x.shape[1], 11, 12), (2, x.shape[1], 20, 9)):
        again = torch.randn(shape)
        for dim in (0, 2, 3):
            minicompile.mark_dynamic(again, dim)
        torch.testing.assert_close(compiled(again, *others), function(again, *others), rtol=1e-5, atol=1e-5)
    (entry,) = compiled.entries
    assert entry.graphs[0].compiled.externs == []
