"""What eager refuses by dtype or number is refused while tracing too, and the program gets eager's own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile

from ..support import assert_same

HALF, FLOAT, BYTE, BOOL = torch.float16, torch.float32, torch.int8, torch.bool
PROGRAMS: dict[str, tuple[Callable[[Tensor], Any], torch.dtype]] = {
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1e9), HALF),
    "masked_fill_": (lambda x: x.masked_fill_(x > 0, -1e9), HALF),
    "clamp": (lambda x: x.clamp(-1e5, 1e5), HALF),
    "clamp_min": (lambda x: x.clamp_min(-3.5e38), torch.bfloat16),
    "clamp of floats": (lambda x: x.clamp(max=3.5e38), FLOAT),
    "full": (lambda x: torch.full((2,), -1e9, dtype=x.dtype), HALF),
    "full_like": (lambda x: torch.full_like(x, 300), BYTE),
    "new_full": (lambda x: x.new_full((2,), 1e39), FLOAT),
    "fill_": (lambda x: x.fill_(1e6), HALF),
    "write of a slice": (lambda x: x[0].fill_(1e6), HALF),
    "pad": (lambda x: F.pad(x, (1, 1), value=1e6), HALF),
    "scatter": (lambda x: x.scatter(0, torch.zeros(1, 2, dtype=torch.int64), 1e6), HALF),
    "index_fill": (lambda x: x.index_fill(0, torch.tensor([0]), 1e6), HALF),
    "alpha": (lambda x: torch.add(x, x, alpha=1e6), HALF),
    "celu": (lambda x: F.celu(x, 0.0), FLOAT),
    "celu_": (lambda x: torch.celu_(x, 0.0), FLOAT),
    "gelu": (lambda x: F.gelu(x), BYTE),
    "mish": (lambda x: F.mish(x), torch.int64),
    "glu": (lambda x: F.glu(x, 0), torch.int32),
    "softmax": (lambda x: x.softmax(-1), torch.int64),
    "lerp": (lambda x: x.lerp(x, 0.5), BYTE),
    "smooth_l1": (lambda x: F.smooth_l1_loss(x, x), BYTE),
    "addcmul": (lambda x: torch.addcmul(x, x, x), BOOL),
    "no elements": (lambda x: x[:0].masked_fill(x[:0] > 0, -1e9), HALF),
    "hardshrink": (lambda x: F.hardshrink(x), BOOL),
    "argmax": (lambda x: x.argmax(1), BOOL),
    "dot": (lambda x: x[0].dot(x[1]), BOOL),
    "mv": (lambda x: x @ x[0], BOOL),
    "trace": (lambda x: x.trace(), BOOL),
    "nll_loss": (lambda x: F.nll_loss(x, torch.tensor([0, 1])), torch.int64),
    "interpolate": (lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), torch.int64),
    "interpolate to a size": (lambda x: F.interpolate(x[None], size=3), BYTE),
    "adaptive_avg_pool": (lambda x: F.adaptive_avg_pool2d(x[None], 1), torch.int64),
    "reflect": (lambda x: F.pad(x[None], (1, 1), mode="reflect"), BOOL),
    "grid_sample": (lambda x: F.grid_sample(x[None, None], x[None, None]), torch.int64),
    "uniform_": (lambda x: x.uniform_(3, 1), FLOAT),
    "uniform_, its bounds": (lambda x: x.clone().uniform_(-1e9, 1), HALF),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x + 0, x.sigmoid()) + 1, FLOAT),
    "rsub of truths": (lambda x: torch.rsub(x, x > 0), FLOAT),
    "heaviside": (lambda x: torch.heaviside(x, x.double()), FLOAT),
    "dist": (lambda x: torch.dist(x, x > 0), FLOAT),
    "cross": (lambda x: torch.linalg.cross(x[:, :1].expand(2, 3), x[:, :1].expand(2, 3).double()), FLOAT),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, x), BYTE),
    "bucketize": (lambda x: torch.bucketize(x, x[0]), BOOL),
    "quantile": (lambda x: torch.quantile(x, x[1]), FLOAT),
    "quantile, a method": (lambda x: x.quantile(-x[0, 0], 0), FLOAT),
    "nanquantile": (lambda x: torch.nanquantile(x, q=x[0] / x[1] * torch.nan), FLOAT),
    "binary_cross_entropy of NaN": (lambda x: F.binary_cross_entropy(x / x, x.sigmoid(), reduction="none"), FLOAT),
}
TAKEN: dict[str, tuple[Callable[[Tensor], Any], torch.dtype]] = {
    "sum overflows": (lambda x: x + 1e6, HALF),
    "infinity": (lambda x: x.masked_fill(x > 0, -torch.inf).clamp(-torch.inf, 2), HALF),
    "largest": (lambda x: x.clamp(torch.finfo(x.dtype).min, torch.finfo(x.dtype).max), HALF),
    "negative bytes": (lambda x: x.masked_fill(x > 0, -1), torch.uint8),
    "halves of another dimension": (lambda x: F.glu(x, 0) + F.celu(x[:1]), FLOAT),
    "comparison": (lambda x: (x < 1000, x == 300), BYTE),
    "probabilities": (
        lambda x: F.binary_cross_entropy(x.sigmoid(), x.clamp(0, 1), reduction="none"),
        FLOAT,
    ),
    "fractions": (lambda x: (x.quantile(x[0]), torch.nanquantile(x, x[0, 0], 1, keepdim=True), x.quantile(0.5)), FLOAT),
    "cross products": (lambda x: torch.linalg.cross(x.repeat(1, 2)[:, :3], x.repeat(1, 2)[:, 1:]), BYTE),
    "zero divides no elements": (lambda x: (x[:0] // 0, x[:0] % 0), BYTE),
}


def outcome(fn: Any, dtype: torch.dtype) -> Any:
    try:
        return fn(torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to(dtype))
    except (RuntimeError, NotImplementedError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused(name: str) -> None:
    fn, dtype = PROGRAMS[name]
    expected = outcome(fn, dtype)
    assert not isinstance(expected, Tensor)
    assert outcome(minicompile.compile(fn), dtype) == expected


@pytest.mark.parametrize("name", TAKEN)
def test_taken_in_one_graph(name: str) -> None:
    fn, dtype = TAKEN[name]
    expected = outcome(fn, dtype)
    assert isinstance(expected, (Tensor, tuple)) and expected[0] is not RuntimeError
    assert_same(outcome(minicompile.compile(fn, fullgraph=True), dtype), expected)


def test_asking_draws_no_random_numbers() -> None:
    def fn(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand_like(x) + x.clone().uniform_(1, 2)

    results = []
    with minicompile.config.patch(fallback_random=True):
        for call in (minicompile.compile(fn), fn):
            torch.manual_seed(1)
            results.append((call(torch.ones(3, 2)), torch.rand(1)))
    assert_same(*results)
