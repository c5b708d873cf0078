"""Uses of torch's and Python's libraries that need a rule of their own: one graph each, and eager's results."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch

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


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)
