"""Floats that are read from tensors, captured: one entry, and eager's results for infinities and NaN."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._pytree import tree_map

import minicompile
from minicompile import config
from tests.support import assert_same

F = torch.nn.functional
NUMBERS = (0.3, -1.7, 2.5, 0.0, -0.0, math.inf, math.nan, 1e-3, -math.inf, 7.0)

PROGRAMS = {
    "product": lambda x, t: x * t.item(),
    "arithmetic": lambda x, t: x * (t.item() * 2 + 1) - t.item() / 3,
    "three products in a row": lambda x, t: (t.item() * 0.1 * 3.0 * 0.7, x * (t.item() * 0.1 * 3.0 * 0.7)),
    "quotients": lambda x, t: (x / t.item(), x * (1.0 / t.item())),
    "remainders": lambda x, t: x * (7.5 // t.item()) + 7.5 % t.item(),
    "negated": lambda x, t: x * -t.item() + +t.item(),
    "powers": lambda x, t: (x * t.item() ** 2, 2.0 ** t.item()),
    "tensor to a power": lambda x, t: x.abs() ** t.item(),
    "root by power": lambda x, t: x * t.item() ** 0.5,
    "power of two": lambda x, t: x * abs(t.item()) ** t.item(),
    "full": lambda x, t: (torch.full((3,), t.item()), x.new_full((2, 1), t.item()), torch.zeros(4).fill_(t.item())),
    "clamp": lambda x, t: (x.clamp(max=t.item()), x.clamp(-t.item(), t.item())),
    "float": lambda x, t: x + float(t),
    "float of a float": lambda x, t: x + float(t.item()),
    "int": lambda x, t: torch.ones(int(t) + 4) * int(t.item() * 2),
    "rounded": lambda x, t: (torch.ones(round(t.item()) + 4), math.floor(t.item()), math.ceil(t.item()) + 1),
    "rounded to places": lambda x, t: x * round(t.item(), 1),
    "math": lambda x, t: x * math.sqrt(abs(t.item())) + math.exp(t.item()) + math.atan2(t.item(), 2),
    "logarithm": lambda x, t: x * math.log(t.item()),
    "given back": lambda x, t: (x * 2, t.item(), t.item() + 1, [t.item()], {"loss": t.item()}),
    "largest and smallest": lambda x, t: x * max(t.item(), 0.5) + min(1.0, t.item(), 0.25),
    "tolist": lambda x, t: x * sum(torch.stack([t, t + 1]).tolist()),
    "alpha": lambda x, t: torch.add(x, x.long(), alpha=2) * torch.lerp(x, x * 2, t.item()),
    "filled": lambda x, t: (x.masked_fill(x > 0, t.item()), torch.where(x > 0, x, t.item())),
    "filled in place": lambda x, t: (y := x * 2, y.mul_(t.item()), y[0].fill_(t.item()))[0],
    "compared": lambda x, t: (x > t.item(), x == t.item()),
    "made into a tensor": lambda x, t: (torch.tensor(t.item()) * 2, torch.tensor([t.item(), 1.0, 2]) + 1),
    "linspace": lambda x, t: torch.linspace(0, t.item(), 5),
    "slope": lambda x, t: F.leaky_relu(x, t.item()),
    "stated": lambda x, t: (torch._check(t.item() > -100), x * t.item())[1],
    "of float64 and bfloat16": lambda x, t: (x * t.double().item(), x.bfloat16() * t.bfloat16().item()),
    "to ints": lambda x, t: x.long() * t.item(),
    "with a size": lambda x, t: x * (x.shape[0] * t.item()),
    "with an int": lambda x, t: x * ((x > 0).sum().item() * t.item()),
    "fraction of ints": lambda x, t: x * (1.0 / (x > 0).sum().item()) + (x > 0).sum().item() / x.numel(),
    "root of an int": lambda x, t: x * math.sqrt((x > 0).sum().item()) + 0.9 ** (x > 0).sum().item(),
    "ints and floats": lambda x, t: torch.tensor([(x > 0).sum().item(), t.item()]) * 2,
    "twice": lambda x, t: (t.item() is not None, x * t.item() + t.item()),
    "changed between": lambda x, t: (s := t * 1, x * s.item(), s.add_(1), x * s.item()),
}


ASKED = ("tensor to a power",) if torch.__version__ < "2.12" else ()
"""Torch 2.11's rule asks which number it is."""


def inputs(number):
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(1)), torch.tensor(number)


def outcome(fn, args):
    """What it gives, with a word for each NaN, which equals nothing."""
    try:
        return tree_map(lambda leaf: "nan" if isinstance(leaf, float) and math.isnan(leaf) else leaf, fn(*args))
    except Exception as error:
        return type(error), str(error)


@pytest.fixture(autouse=True)
def strict():
    with config.patch(strict=True, capture_scalar_outputs=True):
        yield


@pytest.mark.parametrize("backend", ["auto", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name, backend):
    fn = PROGRAMS[name]
    compiled = minicompile.compile(fn, backend=backend)
    for number in NUMBERS:
        assert_same(outcome(compiled, inputs(number)), outcome(fn, inputs(number)))
    is_whole = len(compiled.entries) == 1 and not compiled.breaks
    assert is_whole or name in ASKED, (compiled.breaks, compiled.recompiles)


BREAKS = {
    "branch": (lambda x, t: x * 2 if t.item() > 0 else x - 1, "A branch depends on a number"),
    "truth": (lambda x, t: x * 2 if t.item() else x - 1, "A branch depends on a number"),
    "text": (lambda x, t: (x * 2, f"{t.item():.3f}"), "number that depends on data"),
    "size": (lambda x, t: torch.arange(0, abs(t.item()) + 1, 0.5), "makes a size of a float"),
    "method": (lambda x, t: (x * 2, t.item().is_integer()), "number that depends on data"),
    "bool": (lambda x, t: x * (t > 0).item(), "reads the numbers"),
    "after a change": (lambda x, t: (x.add_(1), x * t.item())[1], "after a tensor from outside was changed"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_says_why(name):
    fn, reason = BREAKS[name]
    compiled = minicompile.compile(fn)
    for number in (0.3, -1.7, 0.0, 2.5):
        assert_same(outcome(compiled, inputs(number)), outcome(fn, inputs(number)))
    assert any(reason in record.reason for record in compiled.breaks), compiled.breaks


def test_gradients():
    """A loss that is reported, and a scale that is read from what requires gradients."""

    def step(w, x, t):
        loss = ((x @ w).tanh() * t.item()).square().mean()
        return loss / max(w.norm().item(), 1e-3), loss.item()

    compiled = minicompile.compile(step)
    for number in (0.3, -1.7, 2.5):
        results = []
        for run in (compiled, step):
            w = torch.randn(3, 3, generator=torch.Generator().manual_seed(7)).requires_grad_()
            loss, reported = run(w, *inputs(number))
            loss.backward()
            results.append((loss.detach(), reported, w.grad))
        torch.testing.assert_close(*results)
    assert len(compiled.entries) == 1 and not compiled.breaks, compiled.breaks
