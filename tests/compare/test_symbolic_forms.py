"""Functions that ask for a size as a number: one entry for all sizes nevertheless, and eager's own bits."""

from __future__ import annotations

import pytest
import torch

import minicompile
from minicompile import config

F = torch.nn.functional
SIZES = (5, 7, 12, 6, 33)

PROGRAMS = {
    "linspace": lambda x: torch.linspace(0.1, 1.3, x.shape[0])[:, None] * x,
    "linspace of a dtype": lambda x: (torch.linspace(-1, 2, x.shape[0], dtype=torch.float64), torch.linspace(3, 0, 4)),
    "linspace, longer": lambda x: -torch.linspace(0, 1, 2 * x.shape[0] + 1, device="cpu"),
    "logspace": lambda x: torch.logspace(0, 1, x.shape[0]) * 2,
    "one_hot": lambda x: F.one_hot(torch.arange(4), x.shape[0]) * 3,
    "one_hot of rows": lambda x: F.one_hot(torch.arange(x.shape[0]) % 3, 5),
    "tril_indices": lambda x: torch.tril_indices(x.shape[0], x.shape[0]) * 2,
    "tril_indices, offset": lambda x: torch.tril_indices(x.shape[0], x.shape[0], -1),
    "triu_indices": lambda x: torch.triu_indices(x.shape[0], x.shape[0], 1, dtype=torch.int32),
    "kron": lambda x: torch.kron(x, torch.arange(6.0).view(2, 3)),
    "kron of a row": lambda x: torch.kron(x[:, 0], x) + 1,
    "kron of columns": lambda x: torch.kron(x[:, :2], torch.eye(2)),
    "max_pool1d": lambda x: F.max_pool1d(x.t()[None], 2) * 2,
    "max_pool1d, all of it": lambda x: torch.max_pool1d(x.t()[None], (3,), stride=2, padding=(1,), ceil_mode=True),
    "max_pool1d, dilated": lambda x: F.max_pool1d(x.t(), 2, 1, dilation=2),
    "hann": lambda x: torch.hann_window(x.shape[0])[:, None] * x,
    "hann, not periodic": lambda x: torch.hann_window(x.shape[0], False),
    "hamming": lambda x: torch.hamming_window(x.shape[0], True, 0.5, 0.4),
    "bartlett": lambda x: torch.bartlett_window(x.shape[0], dtype=torch.float64),
    "blackman": lambda x: torch.blackman_window(x.shape[0]),
    "kaiser": lambda x: torch.kaiser_window(x.shape[0], True, 9.0),
}


MOST = {"max_": 2}
"""Entries. Torch 2.11's rule for pools decides whether a size is even."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_entry_and_the_same_bits(name):
    fn = PROGRAMS[name]
    with config.patch(strict=True):
        compiled = minicompile.compile(fn, dynamic=True, fullgraph=True)
        for rows in SIZES:
            x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
            actual, expected = compiled(x), fn(x)
            assert type(actual) is type(expected)
            pairs = zip(actual, expected, strict=True) if isinstance(expected, tuple) else [(actual, expected)]
            for one, other in pairs:
                torch.testing.assert_close(one, other, rtol=0, atol=0, check_stride=True)
    assert len(compiled.entries) <= MOST.get(name[:4], 1), compiled.recompiles


def test_gradients_of_a_pool():
    compiled = minicompile.compile(lambda x: F.max_pool1d(x.t()[None], 2).sum(), dynamic=True)
    for rows in SIZES:
        x = torch.randn(rows, 3, requires_grad=True)
        (expected,) = torch.autograd.grad(F.max_pool1d(x.t()[None], 2).sum(), x)
        (actual,) = torch.autograd.grad(compiled(x), x)
        assert torch.equal(actual, expected)
    assert len(compiled.entries) <= MOST["max_"]


def test_classes_out_of_range_are_refused():
    compiled = minicompile.compile(lambda x, t: F.one_hot(t, x.shape[0]), dynamic=True)
    compiled(torch.ones(5), torch.arange(5))
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        compiled(torch.ones(4), torch.arange(5))


def test_kron_refuses_what_eager_refuses():
    compiled = minicompile.compile(lambda x: torch.kron(x.t(), torch.eye(2)), dynamic=True)
    for run in (lambda x: torch.kron(x.t(), torch.eye(2)), compiled):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            run(torch.randn(5, 3))


ROUNDED = {
    "half": lambda x: x[: round(x.shape[0] * 0.5)] * 2,
    "a quarter": lambda x: x[: round(x.shape[0] / 4)].sum(0),
    "as a size": lambda x: x.new_ones(round(x.shape[0] * 1.5)) + round(x.shape[0] / 2),
    "given back": lambda x: (x * 2, round(x.shape[0] * 0.5), round(x.shape[0] * 0.3, 1)),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_size_is_a_size(name):
    """Halves go to the even number, as Python rounds."""
    fn = ROUNDED[name]
    compiled = minicompile.compile(fn, dynamic=True)
    for rows in range(5, 20):
        x = torch.randn(rows, 3)
        actual, expected = compiled(x), fn(x)
        if isinstance(expected, tuple):
            assert actual[1:] == expected[1:]
        else:
            torch.testing.assert_close(actual, expected)
    assert len(compiled.entries) <= 2, compiled.recompiles


@pytest.mark.parametrize("drop", [
    lambda x: F.dropout(x, 0.5, False), lambda x: F.dropout(x, 0.0), lambda x: torch.dropout(x, 0.5, train=False),
    torch.nn.Dropout().eval(),
])  # fmt: skip
def test_a_dropout_that_drops_nothing_gives_its_argument_back(drop):
    compiled = minicompile.compile(lambda x: drop(x), dynamic=True)
    x = torch.randn(6, 4)[::2]
    assert compiled(x) is x
