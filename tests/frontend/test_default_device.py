"""torch.set_default_device, and blocks of a device: what a compiled function makes lies where eager puts it."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import minicompile

from ..support import assert_same

X = torch.arange(24.0).reshape(4, 6) / 8


@pytest.fixture
def on_meta() -> Iterator[None]:
    """A device that no CPU tensor goes with, so that whatever is made by mistake is seen."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def makes(x):
    return [
        torch.ones(3) + 1, torch.arange(4), torch.zeros(2, device="cpu"), torch.rand(2), torch.tensor([1.0, 2.0]),
        torch.full((2,), 3.0), torch.empty(2, 3), torch.eye(3), torch.linspace(0, 1, 5), torch.tensor(3.5),
        torch.zeros_like(x), x.new_ones(2), torch.randint(0, 5, (3,)), torch.tril_indices(3, 3), torch.randn(2, device=None),
        torch.as_tensor([1, 2]), torch.hann_window(4), torch.scalar_tensor(2.0), torch.zeros(2, device=x.device),
    ]  # fmt: skip


def makes_a_module(x):
    return nn.Linear(6, 2).weight, nn.Linear(6, 2, device="cpu")(x)


def places(values: Any) -> Any:
    return [(v.device, v.dtype, v.shape, v.stride()) for v in values]


@pytest.mark.usefixtures("on_meta")
def test_what_is_made_lies_on_the_device() -> None:
    compiled = minicompile.compile(makes, fullgraph=True)
    for _ in range(2):
        assert places(compiled(X)) == places(makes(X))
    made = minicompile.compile(makes_a_module)
    assert [t.device for t in made(X)] == [t.device for t in makes_a_module(X)]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.heads, self.out = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 5)
        self.embed, self.after = nn.Embedding(7, 6), nn.LayerNorm(6)

    def forward(self, x, ids):
        y = F.relu(self.norm(self.conv(x[:, None])))
        y = self.heads(y, y, y)[0] + self.embed(ids)[:, None]
        y = self.after(y).cumsum(1) * y.max(-1, keepdim=True).values + y.sort(-1).indices
        y = torch.where(y > 0, y, 0.0).masked_fill(y < -1, 2.0).clamp(max=3.0)
        y[:, 0] = 1.5
        return F.cross_entropy(self.out(y).mean(1), ids % 5, label_smoothing=0.1) + F.gelu(y).std() + y[ids > 2].sum()


@pytest.mark.usefixtures("on_meta")
@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_tensors_of_another_device_are_computed_with(backend: str) -> None:
    with torch.device("cpu"):
        net, ids = Net(), torch.tensor([1, 6, 2, 0])
    found = []
    for run in (minicompile.compile(net, backend=backend), net):
        net.zero_grad()
        with torch.device("cpu"):
            net.norm.reset_running_stats()
        loss = run(X, ids)
        loss.backward()
        found.append((loss.detach(), [p.grad for p in net.parameters()], net.norm.running_mean.clone()))
        with torch.no_grad():
            found[-1] += (run(X * 2, ids),)
    torch.testing.assert_close(*found)


@pytest.mark.usefixtures("on_meta")
def test_an_optimizer_steps() -> None:
    found = []
    for wrap in (minicompile.compile, lambda fn: fn):
        w = X.clone().requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.1)

        def step():
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

        run = wrap(step)
        for _ in range(3):
            run()
        found.append(w.detach())
    torch.testing.assert_close(*found)


def test_another_device_is_another_entry() -> None:
    compiled = minicompile.compile(makes, fullgraph=True)
    for device in ("cpu", "meta", None, "meta", "cpu"):
        if device is None:
            assert places(compiled(X)) == places(makes(X))
        else:
            with torch.device(device):
                assert places(compiled(X)) == places(makes(X))
    assert len(compiled.entries) == 3


def test_a_block_inside() -> None:
    def fn(x):
        a = torch.ones(2)
        with torch.device("meta"):
            b = torch.ones(2) + torch.arange(2)
            y = x * 2 + x.new_zeros(1)
        return a, b, y, torch.zeros(1)

    compiled = minicompile.compile(fn)
    for _ in range(2):
        result, expected = compiled(X), fn(X)
        assert places(result) == places(expected)
        assert_same(result[2], expected[2])


@pytest.mark.usefixtures("on_meta")
def test_functions_written_in_python() -> None:
    def fn(x):
        return torch.cartesian_prod(x[0], x[1]), F.one_hot(x[0].long(), 9), torch.block_diag(x, x), torch.signal.windows.hann(4)

    compiled = minicompile.compile(fn)
    result, expected = compiled(X), fn(X)
    assert places(result) == places(expected)
    assert_same(result[:3], expected[:3])


@pytest.mark.usefixtures("on_meta")
def test_numpy() -> None:
    def fn(x, a):
        return torch.as_tensor(a), torch.from_numpy(a) + x, torch.tensor(a)

    a = np.ones((4, 6), dtype=np.float32)
    assert places(minicompile.compile(fn)(X, a)) == places(fn(X, a))
