"""Whole networks of plain torch.nn, with random weights: what the suite's model rows run.

In: nothing, or a batch size. Out: a module in inference mode and its arguments.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[Any, ...]]


class Block(nn.Module):
    """A transformer block. (batch, length, width) → the same; pre-norm or post-norm, causal or not."""

    def __init__(self, width: int, heads: int, pre_norm: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.pre_norm, self.causal = heads, pre_norm, causal
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=self.causal)
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))

    def mlp(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))

    def forward(self, x: Tensor) -> Tensor:
        if self.pre_norm:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    """Token embedding, twelve blocks, and (for a language model) the head over the tied table."""

    def __init__(self, vocabulary: int, length: int, pre_norm: bool, causal: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, 768), nn.Embedding(length, 768)
        self.blocks = nn.ModuleList(Block(768, 12, pre_norm, causal) for _ in range(12))
        self.norm = nn.LayerNorm(768)
        self.causal = causal

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return x @ self.tokens.weight.T if self.causal else x


class VisionTransformer(nn.Module):
    """ViT-base, 16×16 patches of a 224×224 image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, stride=16)
        self.cls = nn.Parameter(torch.zeros(1, 1, 768))
        self.positions = nn.Parameter(torch.randn(1, 197, 768) * 0.02)
        self.blocks = nn.Sequential(*(Block(768, 12, pre_norm=True, causal=False) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.short(x))


def _resnet50() -> nn.Module:
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    layers: list[nn.Module] = list(stem)
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def mlp(batch: int) -> Made:
    module = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 512))
    return module.eval(), (torch.randn(batch, 512),)


class _ManyParameters(nn.Module):
    """Fifty scaled additions: next to no work, so that what remains is the cost of guarding 150 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ParameterList([torch.randn(4) for _ in range(3)]) for _ in range(50))

    def forward(self, x: Tensor) -> Tensor:
        for scale, shift, weight in self.layers:
            x = x * scale + shift * weight
        return x


def many_parameters() -> Made:
    return _ManyParameters().eval(), (torch.randn(4),)


def bert() -> Made:
    return Encoder(30522, 512, pre_norm=False, causal=False).eval(), (torch.randint(30522, (1, 128)),)


def gpt2() -> Made:
    return Encoder(50257, 1024, pre_norm=True, causal=True).eval(), (torch.randint(50257, (1, 128)),)


def vit() -> Made:
    return VisionTransformer().eval(), (torch.randn(1, 3, 224, 224),)


def resnet50() -> Made:
    return _resnet50().eval(), (torch.randn(1, 3, 224, 224),)
