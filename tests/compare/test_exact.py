"""`config.exact`: eager's very bits, in inference and training, random numbers included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.config import config
from minicompile.lowering import exact, rule_tables, rules

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "arithmetic": lambda x: ((x * 3.1 + 0.7) * x - x / 3) * 1.3,
    "alpha": lambda x: torch.add(x, x * 2, alpha=0.3) - torch.sub(x, x, alpha=1.1) + torch.rsub(x, x, alpha=0.7),
    "transcendental": lambda x: torch.exp(x) + torch.sin(x * 3) * torch.tanh(x) - torch.log(x.abs() + 0.1),
    "softmax": lambda x: torch.softmax(x * 1.3, -1) * torch.log_softmax(x, 0),
    "layer norm": lambda x: F.layer_norm(x * 1.7 + 0.1, (x.shape[-1],)) * 1.1,
    "batch norm": lambda x: F.batch_norm(x, x.new_zeros(37), x.new_ones(37)) * 1.1,
    "gelu": lambda x: F.gelu(x * 1.1) + F.gelu(x, approximate="tanh") + F.silu(x),
    "sums": lambda x: (x * 1.1).sum() + x.mean(0) * x.var() + x.cumsum(1),
    "extremes": lambda x: x.amax(-1) + x.min(0).values.sum() + x.argmax(),
    "entropy": lambda x: -(torch.softmax(x, -1) * torch.log(torch.softmax(x, -1) + 1e-8)).sum(-1),
    "matmul and bias": lambda x: F.linear(x, x) + x @ x.T * 1.1,
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]) + 1.1,
    "addcmul": lambda x: torch.addcmul(x, x, x + 1, value=0.3) * 1.7 + torch.lerp(x, x * 3, 0.3),
    "division": lambda x: x / 3 + 3 / x + torch.div(x, 0.3, rounding_mode="floor") + x % 0.7 + x.reciprocal(),
    "roots": lambda x: x.abs().sqrt() + x.abs().rsqrt() + x.abs() ** 0.3 + x**2,
    "norms": lambda x: x / x.norm(dim=-1, keepdim=True) + F.normalize(x),
    "dropout": lambda x: F.dropout(x * 1.1, 0.4) + torch.rand_like(x) * torch.randn_like(x),
    "where and views": lambda x: torch.where(x > 0.1, x * 1.1, x.flip(0)).t().reshape(-1)[3:] * 1.3,
    "in place": lambda x: x.clone().mul_(1.1).add_(0.3).div_(0.7).exp_(),
}


@pytest.fixture(autouse=True)
def exactly() -> Iterator[None]:
    with config.patch(exact=True, strict=True):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits(name: str, dtype: torch.dtype) -> None:
    fn = PROGRAMS[name]
    x = torch.randn(37, 37, generator=torch.Generator().manual_seed(0)).to(dtype)
    torch.manual_seed(1)
    expected = fn(x)
    after = torch.get_rng_state()
    torch.manual_seed(1)
    actual = minicompile.compile(fn, fullgraph=True)(x)
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(actual.nan_to_num(7.0), expected.nan_to_num(7.0)) and actual.dtype == expected.dtype


@pytest.mark.parametrize("name", ["transcendental", "softmax", "layer norm", "gelu", "where and views", "sums"])
def test_gradients(name: str) -> None:
    leaves = [torch.randn(19, 37, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2)]
    for call, leaf in zip((PROGRAMS[name], minicompile.compile(PROGRAMS[name])), leaves, strict=True):
        call(leaf).sum().backward()
    assert torch.equal(leaves[0].grad, leaves[1].grad)  # type: ignore[arg-type]


def test_there_are_kernels_still() -> None:
    compiled = minicompile.compile(PROGRAMS["arithmetic"])
    compiled(torch.randn(8, 8))
    (graph,) = compiled.entries[0].graphs
    assert len(graph.compiled.kernels) == 1 and not graph.compiled.externs


def test_names_are_operators() -> None:
    """A misspelt name would only make a program slower, and nobody would see it."""
    rule_tables.load_rules()
    known = {overload._schema.name.split("::")[-1] for overload in rules.RULES}
    assert exact.ROUNDED_ONCE <= known, exact.ROUNDED_ONCE - known
    assert all(hasattr(torch.ops.aten, name) or hasattr(torch.ops.prims, name) for name in exact.COPIES)
