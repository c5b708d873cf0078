"""Modules with what training uses: dropout, batch norm, autocast, checkpoints, custom functions, tied and frozen
parameters, recurrent layers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile.config import config

from .support import assert_gradients, check, compiled_graph, leaf, train_alike

F = nn.functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6, padding_idx=0)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embedding(x)))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layers = kind(6, 8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0]


class Frozen(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self[0].weight.requires_grad_(False)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    )


MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)), (5, 4)),
    "block": (lambda: Block(16, 2), (2, 5, 16)),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.3), nn.SiLU(), nn.Dropout(0.5)), (5, 4)),
    "batch norm": (convolutional, (4, 3, 8, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
    "lstm": (lambda: Recurrent(nn.LSTM), (2, 5, 6)),
    "gru": (lambda: Recurrent(nn.GRU), (2, 5, 6)),
    "frozen": (Frozen, (5, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_ten_steps_follow_eager(name: str) -> None:
    make, shape = MODULES[name]
    torch.manual_seed(0)
    data = torch.randn(10, *shape)

    def loss(module, step):
        torch.manual_seed(step)
        return module(data[step]).pow(2).mean()

    compiled = train_alike(make(), loss, lambda parameters: torch.optim.SGD(parameters, lr=0.1), steps=10)
    compiled_graph(compiled)


def test_tied_weights() -> None:
    data = torch.randint(0, 10, (10, 3, 5))

    def loss(module, step):
        return F.cross_entropy(module(data[step]).flatten(0, 1), data[step].flatten())

    train_alike(Tied(), loss, lambda parameters: torch.optim.SGD(parameters, lr=0.5), steps=10)


def test_autocast_around_and_grad_scaler() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 8))
    exact, ours = copy.deepcopy(module).double(), copy.deepcopy(module)
    compiled = minicompile.compile(ours)
    x = torch.randn(3, 16)
    with config.patch(strict=True):
        for run in (compiled, module):
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                result = run(x)
            assert result.dtype is torch.bfloat16
            scaler.scale(result.float().pow(2).sum()).backward()
    (exact(x.double()).pow(2).sum() * 8).backward()
    for one, eager, best in zip(ours.parameters(), module.parameters(), exact.parameters(), strict=True):
        error, allowed = ((t.grad - best.grad).abs().max() for t in (one, eager))
        assert error <= 1.5 * allowed + 0.01 * best.grad.abs().max()


class Scaled(torch.autograd.Function):
    """The sine, with three times its gradient: what autograd would derive is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 3


def both(function, *args):
    """Results and gradients of the compiled function and of the function."""
    found = []
    for run in (minicompile.compile(function), function):
        inputs = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
        torch.manual_seed(0)
        with config.patch(fallback_random=True):
            run(*inputs).sum().backward()
        found.append([x.grad for x in inputs])
    return found


def test_custom_functions_keep_their_own_backward() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert_gradients(*both(lambda x: Scaled.apply(x * 2) * x, x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    """Inside compiled code, and around it; with dropout, whose mask has to come again."""

    def block(x, w):
        return F.dropout(torch.tanh(x @ w), 0.5)

    def inside(x, w):
        return checkpoint(block, x.exp(), w, use_reentrant=reentrant) * 2

    compiled_block = minicompile.compile(block)

    def around(x, w):
        return checkpoint(compiled_block, x.exp(), w, use_reentrant=reentrant) * 2

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    ours, theirs = both(inside, x, w)
    assert_gradients(ours, theirs)
    found = []
    for run in (around, inside, minicompile.compile(inside)):
        inputs = [arg.detach().clone().requires_grad_() for arg in (x, w)]
        torch.manual_seed(0)
        run(*inputs).sum().backward()
        found.append([each.grad for each in inputs])
    assert not torch.equal(found[1][0], found[2][0]), "kernels draw their own numbers"
    minicompile.reset()
    compiled_inside = minicompile.compile(lambda x: inside(x, torch.eye(4)))
    for run in (compiled_inside, lambda x: around(x, torch.eye(4))):
        x = torch.zeros(30, 4, requires_grad=True)
        y = run(x)
        y.sum().backward()
        assert torch.equal(y != 0, x.grad != 0) and 0.3 < (y != 0).float().mean() < 0.7


def test_a_backward_inside_a_compiled_function() -> None:
    def step(x, w):
        loss = (x @ w).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        return loss

    x = torch.randn(5, 4)
    found = []
    for run in (minicompile.compile(step), step):
        w = torch.ones(4, 3, requires_grad=True)
        losses = [run(x, w).item() for _ in range(4)]
        found.append([torch.tensor(losses), w])
    assert_gradients(*found)


def test_a_whole_training_step() -> None:
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(5, 4)
    eager, ours = copy.deepcopy(module), copy.deepcopy(module)
    step, compiled = make(eager), minicompile.compile(make(ours))
    for _ in range(5):
        torch.testing.assert_close(compiled(x), step(x))
    for one, other in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rows", [
    [[1.0, 2.0], [3.0, 4.0]], [[0.0, 2.0], [3.0, math.nan]], [[math.nan, 2.0], [3.0, 4.0]],
    [[0.0, 0.0], [3.0, math.nan]], [[0.0, math.inf], [3.0, 0.0]], [[0.0, 5.0], [3.0, 2.0]],
])  # fmt: skip
@pytest.mark.parametrize("function", [
    lambda x: x.prod(), lambda x: torch.prod(x, dim=1), lambda x: x.prod(-2, keepdim=True),
    lambda x: torch.prod(x, dtype=torch.float64), lambda x: x[:, :1].prod(1).exp(),
])  # fmt: skip
def test_gradients_of_products_at_zeros_and_nan(function, rows) -> None:
    x = torch.tensor(rows, requires_grad=True)
    compiled = minicompile.compile(function, fullgraph=True)
    with config.patch(strict=True):
        ours, theirs = (torch.autograd.grad(run(x).sum(), x)[0] for run in (compiled, function))
    torch.testing.assert_close(ours, theirs, equal_nan=True, check_stride=True)


def test_a_product_of_any_size_has_a_gradient() -> None:
    check(lambda x: (x.prod(0), x[0].prod()), leaf(4, 3), dynamic=True)
