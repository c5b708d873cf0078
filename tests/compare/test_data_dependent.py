"""Sizes and numbers that depend on data: captured, one entry for every one of them, 0 and 1 among them, and eager's
results."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves

import minicompile
from minicompile import config
from minicompile.frontend.segments import Segment
from tests.support import assert_same

F = torch.nn.functional
CAPTURE = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
COUNTS = (5, 0, 1, 2, 12, 3, 1, 0)
"""How many elements are wanted in each call."""


def data(count: int, rows: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Numbers, a mask of which so many are true, and the same count as a tensor."""
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(rows, 3, generator=generator)
    mask = torch.zeros(rows, dtype=torch.bool)
    mask[torch.randperm(rows, generator=generator)[:count]] = True
    return x, mask, torch.tensor(count)


SIZES = {
    "nonzero": lambda x, m, n: m.nonzero() * 2,
    "nonzero as tuple": lambda x, m, n: m.nonzero(as_tuple=True)[0] + 1,
    "nonzero of numbers": lambda x, m, n: torch.nonzero(x > 0.3).sum(0),
    "nonzero, written": lambda x, m, n: torch.nonzero(x > 0.3).add_(1).contiguous().mul_(2),
    "argwhere": lambda x, m, n: torch.argwhere(m).float().exp(),
    "where": lambda x, m, n: torch.where(m)[0] * 3,
    "mask": lambda x, m, n: x[m] * 2 + 1,
    "mask of all": lambda x, m, n: x[x > 0.5].exp().sum(),
    "mask on the right": lambda x, m, n: x.t()[:, m].cos(),
    "mask and slice": lambda x, m, n: x[m, 1:].relu(),
    "mask, sums": lambda x, m, n: (x[m].sum(0), x[m].sum(1), x[m].mean(), x[m].sum()),
    "mask, softmax": lambda x, m, n: x[m].softmax(-1) + x[m].softmax(0),
    "mask, product": lambda x, m, n: x[m] @ x.t() + 1,
    "mask, linear": lambda x, m, n: F.linear(x[m], x[:2]).sigmoid(),
    "mask, its own product": lambda x, m, n: x[m] @ x[m].t(),
    "two masks": lambda x, m, n: torch.cat([x[m], x[~m]]) * 2,
    "two masks, apart": lambda x, m, n: (x[m].exp(), x[~m].cumsum(0)),
    "masked_select": lambda x, m, n: x.masked_select(x > 0).sort().values * 2,
    "unique": lambda x, m, n: torch.unique(m.long()) * 2,
    "unique with all": lambda x, m, n: torch.unique((x * 2).long(), return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, m, n: torch.unique_consecutive(m.long()).float().exp(),
    "repeat_interleave": lambda x, m, n: x.repeat_interleave(m.long(), 0) * 2,
    "bincount": lambda x, m, n: torch.bincount(m.long() * n) * 2,
    "size of it": lambda x, m, n: x.new_zeros(m.nonzero().shape[0], 2) + 1,
    "arange of its size": lambda x, m, n: torch.arange(x[m].shape[0]) * 2,
    "its size": lambda x, m, n: (x[m].shape[0], x[m].shape, x[m].numel(), x[m].shape[0] * 2 + 1),
    "divided by its size": lambda x, m, n: x.sum() / (x[m].shape[0] + 1),
    "view": lambda x, m, n: x[m].view(-1).sin(),
    "view back": lambda x, m, n: x[m].view(-1, 3, 1).tanh(),
    "flatten": lambda x, m, n: (x[m] * 2).flatten() + 1,
    "unsqueeze": lambda x, m, n: x[m].unsqueeze(1) * x[m].unsqueeze(0),
    "stack": lambda x, m, n: torch.stack([x[m], x[m] * 2], 1),
    "pad": lambda x, m, n: F.pad(x[m] * 2, (1, 1)),
    "index_put": lambda x, m, n: torch.zeros(12, 3).index_put((m.nonzero()[:, 0],), x[m] * 2),
    "index_add": lambda x, m, n: torch.zeros(12, 3).index_add(0, m.nonzero().squeeze(1), x[m].exp()),
    "index_select": lambda x, m, n: x.index_select(0, m.nonzero()[:, 0]) * 2,
    "gather by it": lambda x, m, n: (x * 2)[m.nonzero()[:, 0]].sum(-1),
    "embedding": lambda x, m, n: F.embedding(m.nonzero()[:, 0], x) + 1,
    "cross entropy": lambda x, m, n: F.cross_entropy(x[m], m.nonzero()[:, 0] % 3, reduction="sum"),
    "layer norm": lambda x, m, n: F.layer_norm(x[m], (3,)) * 2,
    "variance": lambda x, m, n: (x[m].var(0), x[m].std(-1)),
    "largest": lambda x, m, n: x[m].amax(0) if m.any is None else x[m].sum(0),
    "transposed": lambda x, m, n: (x[m].t() * 2).contiguous() + 1,
    "flip": lambda x, m, n: x[m].flip(0) * 2,
    "cumulated": lambda x, m, n: x[m].cumsum(0) + x[m].cumsum(1),
    "compared": lambda x, m, n: (x[m][:, None] - x[m][None]).abs().sum(-1) < 0.5,
    "selected twice": lambda x, m, n: x[m][x[m][:, 0] > 0] * 2,
    "expanded": lambda x, m, n: x[m].new_ones(1, 3).expand(x[m].shape[0], 3) * 2,
}

NUMBERS = {
    "item": lambda x, m, n: x * n.item(),
    "item, arithmetic": lambda x, m, n: x * (n.item() * 2 + 1) - n.item() // 3,
    "item, given back": lambda x, m, n: (x * 2, n.item(), n.item() + 1),
    "int": lambda x, m, n: x + int(n),
    "int of a sum": lambda x, m, n: x * int(m.sum()),
    "zeros": lambda x, m, n: x.new_zeros(n.item(), 3) + 1,
    "arange": lambda x, m, n: torch.arange(n.item()) * 2,
    "full": lambda x, m, n: torch.full((n.item(), 2), 1.5).exp(),
    "max": lambda x, m, n: x * max(n.item(), 2),
    "tolist": lambda x, m, n: x * sum(torch.stack([n, n + 1]).tolist()),
    "tolist, sizes": lambda x, m, n: torch.ones(torch.stack([n, n + 1]).tolist()) * 2,
    "slice": lambda x, m, n: x[: n.item()] * 2,
    "slice from": lambda x, m, n: (x * 2)[n.item() :].exp(),
    "split": lambda x, m, n: [part * 2 for part in x.split([n.item(), 12 - n.item()])],
    "repeat": lambda x, m, n: x[:1].repeat(n.item(), 1) * 2,
    "expand": lambda x, m, n: x[:1].expand(n.item(), 3) + 1,
    "narrow": lambda x, m, n: x.narrow(0, 0, n.item()).cos(),
    "compared": lambda x, m, n: x * (torch.arange(12) < n.item())[:, None],
    "eye": lambda x, m, n: torch.eye(n.item()) + 1,
    "padded": lambda x, m, n: F.pad(x * 2, (0, 0, 0, n.item())),
}
PROGRAMS = {**{f"size: {name}": fn for name, fn in SIZES.items()}, **{f"number: {k}": v for k, v in NUMBERS.items()}}


def assert_equals(actual, expected) -> None:
    """The same, strides as far as they place elements: those of a dimension of size 1 are anybody's."""
    assert_same(actual, expected, strides=False)
    assert _placing(actual) == _placing(expected)


def _placing(results):
    tensors = [leaf for leaf in tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    return [[s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] if t.numel() else [] for t in tensors]


@pytest.fixture(autouse=True)
def strict():
    with config.patch(strict=True, **CAPTURE):
        yield


@pytest.fixture
def failures(monkeypatch):
    """The graphs that refused a call, which then ran in eager."""
    seen = []
    failed = Segment.failed
    monkeypatch.setattr(Segment, "failed", lambda self, func, error, *rest: [seen.append(error), failed(
        self, func, error, *rest)][1])  # fmt: skip
    return seen


ONLY_MANY = {"size: transposed", "size: cross entropy"}
"""Where a size of 0 or 1 makes a view of what is a copy otherwise, or torch 2.11's rule asks: those run in eager."""


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager_with_one_entry(name, dynamic, failures):
    fn = PROGRAMS[name]
    compiled = minicompile.compile(fn, dynamic=dynamic)
    for count in COUNTS:
        assert_equals(compiled(*data(count)), fn(*data(count)))
    assert len(compiled.entries) == 1 and not compiled.breaks, (compiled.breaks, compiled.recompiles)
    assert compiled.stats["graphs"] == 1 and (not failures or name in ONLY_MANY), failures


@pytest.mark.parametrize("correction", [0, 1, 3, 20])
def test_variances_of_few(correction):
    """Of a size that varies, and of a difference of sizes."""

    def fn(x):
        return x.var(0, correction=correction), x[2:].std(0, correction=correction), x.std()

    compiled = minicompile.compile(fn, dynamic=True)
    for rows in (5, 3, 4, 17, 2):
        x = torch.randn(rows, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # degrees of freedom
            assert_equals(compiled(x), fn(x))
