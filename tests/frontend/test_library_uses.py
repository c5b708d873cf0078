"""Uses of torch's and Python's libraries that need a rule of their own: one graph each, and eager's results."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import os
import sys
from typing import Any, List, Optional

import pytest
import torch

import minicompile

from ..support import assert_same
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


@whole(X)
def versions(x):
    if torch.__version__ >= "2.1" and sys.version_info >= (3, 8):
        x = x + 1
    parts = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return x, parts >= (2, 0), sys.version_info.major, sys.version_info[:1], f"{torch.__version__}"


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


@whole(X)
def annotations_that_typing_keeps(x):
    return x + 1, Optional[int] is Optional[int], list[int] is list[int], List[int] is Optional[int], List[int] is List[int]


LAYER = torch.nn.Linear(4, 2)
FROZEN = torch.nn.Linear(4, 2).requires_grad_(False)


@whole(X)
def modules_that_require_gradients_as_they_are_told(x):
    with torch.no_grad():
        return LAYER.requires_grad_()(x), FROZEN.requires_grad_(False)(x), x.requires_grad_(False) + 1


@whole([X[0], X[1, :2]])
def rows_that_are_padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0)


@whole(X)
def parameters_as_a_vector(x):
    with torch.no_grad():
        return torch.nn.utils.parameters_to_vector(LAYER.parameters()) * x.sum()


@whole(X)
def the_environment(x):
    known = "MINICOMPILE_NOT_THERE" in os.environ, os.environ.get("MINICOMPILE_NOT_THERE"), bool(os.environ["PATH"])
    return x * int(os.getenv("MINICOMPILE_NOT_THERE", "2")), known


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.act = torch.nn.ReLU()
        self.act.register_forward_hook(lambda m, args, out: self.seen.append("always"), always_call=True)
        self.act.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs) + 1, with_kwargs=True)

    def forward(self, x):
        return self.act(x - 0.5), list(self.seen)


def test_hooks_that_are_always_called_are_traced() -> None:
    mine, eagers = Hooked(), Hooked()
    compiled = minicompile.compile(mine, fullgraph=True)
    for _ in range(2):
        assert_same(compiled(X), eagers(X))


def test_hooks_on_all_modules_are_traced() -> None:
    seen: list[str] = []
    compiled = minicompile.compile(lambda x: BLOCKS(x), fullgraph=True)
    without = compiled(X)
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: seen.append(type(module).__name__) or (out * 2 if type(module) is Block else None)
    )
    try:
        got = compiled(X)
        traced, seen[:] = list(seen), []
        assert_same(got, BLOCKS(X))
        assert traced == seen
    finally:
        handle.remove()
    assert_same(compiled(X), without)


def test_a_decorated_forward_is_one_graph() -> None:
    block = Block()
    block(X)
    entries = vars(Block)["forward"].entries
    assert not any(entry.breaks or entry.eager for entry in entries)


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


def test_a_method_that_the_program_adds_to_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = minicompile.compile(lambda x: x.added() + 1, fullgraph=True)
    for factor in (2, 3, 3):
        monkeypatch.setattr(torch.Tensor, "added", lambda self, by=factor: self * by, raising=False)
        assert_same(compiled(X), X * factor + 1)


def test_a_change_of_the_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def sets(x: Any) -> Any:
        os.environ["MINICOMPILE_TESTS"] = str(len(x))
        return x * int(os.environ["MINICOMPILE_TESTS"])

    compiled, setting = minicompile.compile(lambda x: x * float(os.environ["MINICOMPILE_TESTS"])), minicompile.compile(sets)
    for factor in (2.0, 3.0):
        monkeypatch.setenv("MINICOMPILE_TESTS", str(factor))
        assert_same(compiled(X), X * factor)
    for rows in (1, 2):
        assert_same(setting(X[:rows]), X[:rows] * rows)
        assert os.environ["MINICOMPILE_TESTS"] == str(rows)
