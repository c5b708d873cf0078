"""What the project's first users compile: three relevance scorers, a transformer block, and two functions that break.

In: a device. Out: `PROGRAMS`: a function or module with its arguments, by name. Plain user code: nothing here knows
that it will be compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def information_score(f: Tensor) -> Tensor:
    """Entropy of each patch's features: how much there is to see. f: (batch, patches, channels)."""
    p = torch.softmax(f, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


def query_content_score(q: Tensor, c: Tensor) -> Tensor:
    """Attention of queries over content. q, c: (batch, patches, channels) → (batch, patches, patches)."""
    return torch.softmax(q @ c.transpose(-2, -1) / math.sqrt(c.size(-1)), -1)


class SalienceScorer(nn.Module):
    """Edge strength of an image by two Sobel filters. (batch, 3, height, width) → the same."""

    sobel_x: Tensor
    sobel_y: Tensor

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        kernel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
        self.channels = channels
        self.register_buffer("sobel_x", kernel.repeat(channels, 1, 1, 1))
        self.register_buffer("sobel_y", kernel.T.repeat(channels, 1, 1, 1))

    def forward(self, image: Tensor) -> Tensor:
        ex = F.conv2d(image, self.sobel_x, padding=1, groups=self.channels)
        ey = F.conv2d(image, self.sobel_y, padding=1, groups=self.channels)
        return torch.sqrt(ex**2 + ey**2 + 1e-8)


class TransformerBlock(nn.Module):
    """A pre-norm transformer block. (batch, length, width) → the same."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


def loop_with_print(x: Tensor) -> Tensor:
    """A graph break in a loop: each pass prints."""
    for step in range(3):
        x = torch.sin(x) * 2
        print("step", step)
        x = x + step
    return x


def branch_on_data(x: Tensor) -> Tensor:
    """A data-dependent branch."""
    y = torch.tanh(x)
    if x.sum() > 0:
        return y * 2
    return y - 1


@dataclass(frozen=True)
class Program:
    """One example.

    Attributes:
        make: device → (function or module, argument tuple); the same values on every call.
        breaks: whether a graph break is expected.
    """

    name: str
    make: Callable[[str], tuple[Callable[..., Any], tuple[Tensor, ...]]]
    breaks: bool = False


def _program(
    name: str, build: Callable[[], Callable[..., Any]], *shapes: tuple[int, ...], breaks: bool = False
) -> Program:
    def make(device: str = "cpu") -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
        generator = torch.Generator().manual_seed(0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            fn = build()
        if isinstance(fn, nn.Module):
            fn = fn.to(device).eval()
        return fn, tuple(torch.randn(shape, generator=generator).to(device) for shape in shapes)

    return Program(name, make, breaks)


PROGRAMS: dict[str, Program] = {
    program.name: program
    for program in (
        _program("InformationScorer", lambda: information_score, (32, 196, 768)),
        _program("QueryContentScorer", lambda: query_content_score, (32, 196, 768), (32, 196, 768)),
        _program("SalienceScorer", SalienceScorer, (8, 3, 224, 224)),
        _program("TransformerBlock", TransformerBlock, (2, 128, 768)),
        _program("loop_with_print", lambda: loop_with_print, (64, 256), breaks=True),
        _program("branch_on_data", lambda: branch_on_data, (64, 256), breaks=True),
    )
}
"""The demo's functions by name, in the order of its table."""
