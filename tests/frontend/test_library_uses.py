"""Uses of torch's and Python's libraries that need a rule of their own: one graph each, and eager's results."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch

import minicompile

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE = Programs()
whole = WHOLE.program


class Answers(type):
    def __getattr__(cls, name):
        return name + "?"


class Answered(metaclass=Answers):
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k


@whole(X, Answered(3))
def a_class_that_answers_to_every_name(x, o):
    return x * o.k * Answered(2).k, Answered.anything


doubled = minicompile.compile(lambda x: x * 2)
ALSO_DOUBLED = [doubled]


@whole(X)
def compiled_functions_that_are_called_twice(x):
    return doubled(doubled(x)) + ALSO_DOUBLED[0](x)


class Scaled:
    k = 2

    @minicompile.compile
    def times(self, x):
        return x * self.k

    @minicompile.compile
    def __call__(self, x):
        return self.times(x) + Scaled.times(self, x)

    @minicompile.compile
    def __len__(self):
        return 3


@whole(X)
def decorated_methods(x):
    made = Scaled()
    made.k = 3
    return made.times(x), made(x), len(made)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @minicompile.compile
    def forward(self, x):
        return self.linear(x)


BLOCKS = torch.nn.Sequential(Block(), torch.nn.ReLU(), Block()).requires_grad_(False)


@whole(X)
def decorated_forwards(x):
    return BLOCKS(x)


def test_a_decorated_forward_is_one_graph() -> None:
    block = Block()
    block(X)
    entries = vars(Block)["forward"].entries
    assert not any(entry.breaks or entry.eager for entry in entries)


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)
