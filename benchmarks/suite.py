"""The suite as data: what is measured, with which inputs.

In: nothing. Out: `SUITE`: rows by name. A row makes a function and its arguments; it knows nothing of compilers.

`kind` says which promise a row belongs to: "kernel" (one or a few kernels; memory-bound unless said), "call" (small:
the cost of a call), "model" (a whole network's forward).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from minicompile.examples.programs import PROGRAMS

from . import models

Made = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Part:
    """A part of a row's work whose data stays in cache: the row is `times` as much."""

    make: Callable[[], Made]
    times: float


@dataclass(frozen=True)
class Row:
    """One benchmark.

    Attributes:
        make: → (function, arguments); called after the random seed was set.
        kind: "kernel", "call" or "model".
        memory_bound: whether the bandwidth bound is what counts; it is printed for these only.
        mutates: whether the function writes its arguments (then there is no float64 check).
        skip_bytes: indices of tensor arguments that are not read in full (an embedding's table).
        gathered: bytes that are read of those.
        part: for rows of much arithmetic; what it takes without waiting for memory is a limit as well.
    """

    name: str
    make: Callable[[], Made]
    kind: str = "kernel"
    memory_bound: bool = True
    mutates: bool = False
    skip_bytes: tuple[int, ...] = ()
    gathered: int = 0
    part: Part | None = None


def _row(
    name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32,
    rows: int | None = None, **how: Any,
) -> Row:  # fmt: skip
    """A row whose arguments are random tensors. `rows`: of those like the first, for the part that stays in cache."""
    part = None
    if rows is not None:
        small = [(rows, *shape[1:]) if shape == shapes[0] else shape for shape in shapes]
        part = Part(_random(fn, small, dtype), shapes[0][0] / rows)
    return Row(name, _random(fn, shapes, dtype), part=part, **how)


def _random(fn: Callable[..., Any], shapes: Sequence[tuple[int, ...]], dtype: torch.dtype) -> Callable[[], Made]:
    return lambda: (fn, tuple(torch.randn(shape).to(dtype) for shape in shapes))


# --- the functions ----------------------------------------------------------------------------------------------------


def relu_sigmoid(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y) * 2 + torch.sigmoid(x)


def chain_of_20(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(7):
        x = torch.sin(x) * y + 0.5
    return x - y


def entropy(f: Tensor) -> Tensor:
    p = torch.softmax(f, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(logits, -1), target)


def layer_norm_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, (x.shape[-1],), weight, bias))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def embed(ids: Tensor, positions: Tensor, weight: Tensor, bias: Tensor, table: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(ids, table) + positions, (table.shape[1],), weight, bias)


def batch_norm_relu(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, var, weight, bias))


def normalise_images(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return (images.float() / 255 - mean) / std


def bias_gelu_residual(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.gelu(x + bias) + residual


def adam_step(params: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
    for p, g, m, v in zip(params, grads, means, squares, strict=True):
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-6)


# --- rows that random tensors alone don't make ------------------------------------------------------------------------


def _cross_entropy(rows: int = 1024) -> Made:
    return cross_entropy, (torch.randn(rows, 32000), torch.randint(32000, (rows,)))


def _rotary() -> Made:
    angles = torch.outer(torch.arange(512.0), 10000 ** (-torch.arange(0, 64, 2) / 64)).repeat(1, 2)
    return rotary, (torch.randn(8, 16, 512, 64), angles.cos(), angles.sin())


def _embedding(batch: int = 32, words: int = 30000) -> Made:
    sizes = (torch.randint(words, (batch, 128)), torch.randn(128, 768), torch.ones(768), torch.zeros(768))
    return embed, (*sizes, torch.randn(words, 768))


def _masked_softmax(batch: int = 8, heads: int = 12) -> Made:
    mask = torch.ones(512, 512, dtype=torch.bool).triu(1)
    return lambda x, m: torch.softmax(x.masked_fill(m, -math.inf), -1), (torch.randn(batch, heads, 512, 512), mask)


def _batch_norm(memory_format: torch.memory_format) -> Callable[[], Made]:
    def make() -> Made:
        x = torch.randn(32, 64, 56, 56).to(memory_format=memory_format)
        return batch_norm_relu, (x, torch.randn(64), torch.rand(64) + 0.5, torch.randn(64), torch.randn(64))

    return make


def _images(count: int = 32) -> Made:
    images = torch.randint(256, (count, 3, 224, 224), dtype=torch.uint8)
    return normalise_images, (images, torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.1)


def _adam() -> Made:
    def group() -> list[Tensor]:
        return [torch.rand(256 + 64 * i, 512) for i in range(20)]

    return adam_step, (group(), group(), group(), group())


def _program(name: str) -> Row:
    return Row(name, lambda: PROGRAMS[name].make("cpu"), memory_bound=False)


def _model(name: str, build: Callable[[], Made]) -> Row:
    return Row(name, build, kind="model", memory_bound=False)


_ROWS = (
    _row("relu(x+y)*2+sigmoid(x)", relu_sigmoid, (4096, 1024), (4096, 1024)),
    _row("chain of 20", chain_of_20, (4096, 1024), (4096, 1024), memory_bound=False),
    _row("entropy", entropy, (32, 196, 768), rows=2),
    _row("softmax", lambda x: torch.softmax(x, -1), (4096, 4096), rows=64),
    Row("cross_entropy", _cross_entropy, part=Part(lambda: _cross_entropy(8), 128)),
    _row("layer_norm+gelu", layer_norm_gelu, (4096, 768), (768,), (768,), rows=256),
    _row("rms_norm bf16", rms_norm, (4096, 4096), (4096,), dtype=torch.bfloat16, rows=64),
    Row("rotary", _rotary),
    _row("swiglu", lambda x, y: F.silu(x) * y, (2048, 11008), (2048, 11008)),
    _row("sum of squares 64M", lambda x: (x * x).sum(), (64 << 20,)),
    _row("column sum", lambda x: x.sum(0), (8192, 4096)),
    _row("var", lambda x: x.var(1), (4096, 4096), rows=64),
    _row("row sum", lambda x: x.sum(1), (4096, 4096)),
    _row("x + y.T", lambda x, y: x + y.T, (4096, 4096), (4096, 4096)),
    _row("cat of 8, relu", lambda *xs: torch.relu(torch.cat(xs)), *[(512, 1024)] * 8),
    Row("embedding+add+layer_norm", _embedding, skip_bytes=(4,), gathered=32 * 128 * 768 * 4,
        part=Part(lambda: _embedding(2, 100), 16)),
    Row("masked_fill+softmax", _masked_softmax, part=Part(lambda: _masked_softmax(1, 1), 96)),
    Row("batch_norm+relu", _batch_norm(torch.contiguous_format)),
    Row("batch_norm+relu channels_last", _batch_norm(torch.channels_last)),
    Row("normalise images", _images, part=Part(lambda: _images(1), 32)),
    _row("argmax", lambda x: x.argmax(1), (4096, 4096)),
    _row("cumsum", lambda x: x.cumsum(1), (4096, 1024), memory_bound=False),
    _row("bias+gelu+residual", bias_gelu_residual, (4096, 3072), (3072,), (4096, 3072)),
    Row("adam 20 tensors", _adam, mutates=True),
    _row("tanh in cache", lambda x: torch.tanh(x), (256, 256), memory_bound=False),
    _row("gelu in cache", lambda x: F.gelu(x), (256, 256), memory_bound=False),
    _row("sin in cache", lambda x: torch.sin(x), (256, 256), memory_bound=False),
    _row("exp in cache", lambda x: torch.exp(x), (256, 256), memory_bound=False),
    _program("InformationScorer"),
    _program("QueryContentScorer"),
    _program("SalienceScorer"),
    _row("relu(x+1), 8 floats", lambda x: torch.relu(x + 1), (8,), kind="call", memory_bound=False),
    Row("module of 150 parameters", models.many_parameters, kind="call", memory_bound=False),
    _model("MLP batch 1", lambda: models.mlp(1)),
    _model("MLP batch 256", lambda: models.mlp(256)),
    _model("TransformerBlock", lambda: PROGRAMS["TransformerBlock"].make("cpu")),
    _model("BERT-base", models.bert),
    _model("GPT-2 small", models.gpt2),
    _model("ViT-base", models.vit),
    _model("ResNet-50", models.resnet50),
)

SUITE: dict[str, Row] = {row.name: row for row in _ROWS}
"""The rows by name, in the order of the table."""

QUICK = ("relu(x+y)*2+sigmoid(x)", "entropy", "softmax", "layer_norm+gelu", "row sum", "tanh in cache",
         "relu(x+1), 8 floats", "MLP batch 1", "TransformerBlock")  # fmt: skip
"""The rows of `--quick`."""
