"""`torch.Size` as programs make and join it: the class that eager gives, sizes that stay symbols, one graph."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import pytest
import torch

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
PROGRAMS = Programs()
program = PROGRAMS.program
X = torch.arange(12.0).reshape(3, 4)


@program(X)
def joined(x):
    s = x.shape
    return s + (1,), (1,) + s, s + s, s[:-1] + (5, 1), x.new_zeros(s + (2,)), type(s + (1,)).__name__


@program(X)
def repeated(x):
    return x.shape * 2, 2 * x.shape, x.shape[:1] * 0


@program(X)
def made(x):
    rows = torch.Size([x.shape[0], 2])
    return rows, torch.Size(), torch.Size(x.shape[1:]), torch.Size(n for n in (1, 2)), x.view(torch.Size([-1, 1])), rows.numel()


@program(X)
def hashed(x):
    return hash(x.shape) == hash((3, 4)), {x.shape: 1}[(3, 4)], x + 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_and_the_class_of_eager(name):
    fn, args = PROGRAMS[name]
    assert not assert_like_eager(fn, args).breaks


@pytest.mark.parametrize("numbers", [[2.5], ["a"], [1, None]])
def test_what_is_no_int_is_refused_with_torchs_words(numbers):
    def fn(x):
        return x + 1, torch.Size(numbers)

    with pytest.raises(TypeError) as expected:
        fn(X)
    with pytest.raises(TypeError) as actual:
        minicompile.compile(fn)(X)
    assert str(actual.value) == str(expected.value)


def test_joined_sizes_stay_symbols():
    def fn(x):
        shape = torch.Size([2]) + x.shape
        return x.expand(shape), shape * 2

    compiled = minicompile.compile(fn)
    for rows in (3, 4, 5, 6):
        x = torch.ones(rows, 2)
        assert_same(compiled(x), fn(x))
    assert len(compiled.entries) == 2
