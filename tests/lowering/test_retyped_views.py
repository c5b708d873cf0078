"""Results that show the memory of an input, or of another result, in another dtype, or as conjugates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile

from ..support import assert_same
from ..training.support import check as check_gradients


def numbers() -> torch.Tensor:
    return torch.arange(48.0).reshape(6, 8)


def complex_numbers() -> torch.Tensor:
    return torch.complex(torch.arange(24.0), torch.arange(24.0) / 7).reshape(6, 4)[1::2, 1:]


def shared_pairs(x):
    pairs = torch.view_as_complex((x + 1).reshape(6, 4, 2))
    return pairs.imag, pairs, pairs.real.t()


REAL: dict[str, Callable[[torch.Tensor], Any]] = {
    "of as many bytes": lambda x: x.view(torch.int32),
    "narrower": lambda x: (x.t()[2:].view(torch.int32), x[1:].view(torch.int16)[:, 3::2]),
    "wider": lambda x: x[2:, 2:].view(torch.float64),
    "empty": lambda x: x[:0].view(torch.int16),
    "pairs of an input": lambda x: torch.view_as_complex(x.reshape(6, 4, 2))[1:, 2:],
    "of a result": lambda x: ((y := x + 1), y.view(torch.int32).t(), y.view(torch.float64)[1:]),
    "pairs of a result": shared_pairs,
    "detached": lambda x: x.detach().view(torch.int16),
}
COMPLEX: dict[str, Callable[[torch.Tensor], Any]] = {
    "parts of an input": lambda z: (z.real, z.imag.t()),
    "parts of a result": lambda z: ((y := z * 2).real, y.imag, y),
    "conjugates of an input": lambda z: (z.conj(), z.conj().imag, z.mH[1:]),
    "conjugates of a result": lambda z: ((y := z * 2), y.conj(), y.conj().imag, y.imag, y.mH),
    "views of conjugates": lambda z: ((y := (z * 2).conj()).t(), y, y[1:].real),
    "parts of both": lambda z: (torch.view_as_real(z)[1], z.t().imag, (z * 2).real),
}
BOTH = [(name, fn, numbers) for name, fn in REAL.items()] + [(n, fn, complex_numbers) for n, fn in COMPLEX.items()]


@pytest.mark.parametrize(("name", "function", "made"), BOTH, ids=[name for name, _, _ in BOTH])
def test_like_eager(check, name, function, made):
    if made is numbers and name != "detached":
        check(function, made())
    check_gradients(function, made(), backward=lambda outputs: None)


@pytest.mark.parametrize("name", COMPLEX)
def test_gradients_of_parts(name):
    check_gradients(COMPLEX[name], complex_numbers().clone().requires_grad_())


def test_conjugates_that_are_written():
    def function(z):
        of_input, y = z.conj(), z * 2
        of_input.mul_(1j)
        of_result = y.conj()
        of_result[0] = 1 + 2j
        return of_input, y, of_result

    check_gradients(function, complex_numbers(), backward=lambda outputs: None)


@pytest.mark.parametrize("name", ["of as many bytes", "pairs of a result", "wider", "of a result"])
def test_gradients_beside_views_that_have_none(name):
    def function(w):
        return w * 2, REAL[name](w.detach()), torch.view_as_complex((w * 3).reshape(6, 4, 2))

    check_gradients(function, numbers().requires_grad_(), backward=lambda outputs: outputs[0].sum().backward())


@pytest.mark.parametrize("made", [numbers, complex_numbers])
def test_what_is_written_to_one_is_seen_in_the_other(made):
    def views(x):
        y = x * 2
        return (x.real, x.imag, y, y.real) if x.is_complex() else (x.view(torch.int32), y, y.view(torch.int32))

    compiled, one, other = minicompile.compile(views, fullgraph=True), made(), made()
    ours, theirs = compiled(one), views(other)
    for results, x in ((ours, one), (theirs, other)):
        results[0].zero_()
        results[-1].fill_(1)
        x[0, 1] += 1
    assert_same([*ours, one], [*theirs, other])
    assert one._version == other._version
