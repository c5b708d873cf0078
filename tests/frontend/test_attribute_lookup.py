"""`__getattr__`, `__getattribute__` and properties that raise: looked up once, in Python's order, and guarded."""

# ruff: noqa: B009, B018 (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minicompile
from tests.support import assert_same

from .conftest import assert_like_eager
from .programs import Programs

X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


class Counting:
    """Every read of an attribute that there is not counts."""

    def __init__(self) -> None:
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("no", "__")):
            raise AttributeError(name)
        self.reads += 1
        return self.reads

    @property
    def counted(self) -> int:
        self.reads += 10
        return self.reads

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Counting) and vars(self) == vars(other)


class Falls:
    """A property that raises AttributeError leaves the word to `__getattr__`."""

    @property
    def p(self) -> Any:
        raise AttributeError("inner")

    def __getattr__(self, name: str) -> Any:
        return "for " + name


class Raises:
    @property
    def p(self) -> Any:
        raise AttributeError("inner")


class Reads:
    def __init__(self) -> None:
        self.z = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "w":
            return 7
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        return "for " + name


class Net(nn.Module):
    @property
    def p(self) -> Any:
        return self.missing

    def forward(self, x: Tensor) -> Any:
        try:
            self.p
        except AttributeError as error:
            return x + 1, str(error), getattr(self, "p", 3), hasattr(self, "p")


@program(X, Counting())
def a_default_reads_once(x: Tensor, o: Counting) -> Any:
    return x * getattr(o, "q", 5), getattr(o, "nothing", 5), hasattr(o, "r"), getattr(o, "counted", 0)


@program(X)
def a_property_that_raises(x: Tensor) -> Any:
    o, plain = Falls(), Raises()
    try:
        plain.p
    except AttributeError as error:
        return x, o.p, getattr(o, "p", 1), hasattr(o, "p"), str(error), getattr(plain, "p", 1), hasattr(plain, "p")


@program(X)
def asked_without_what_comes_behind(x: Tensor) -> Any:
    o, r = Falls(), Reads()
    try:
        object.__getattribute__(r, "q")
    except AttributeError as error:
        return x, o.p, r.w, r.z, r.q, str(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    assert_like_eager(fn, args, fullgraph=True)


def test_a_property_of_a_module_that_raises() -> None:
    net = Net()
    assert_same(minicompile.compile(net, backend="eager", fullgraph=True)(X), net(X))


@pytest.mark.parametrize("where", ["the object", "its class"])
def test_an_attribute_that_appears_is_noticed(where: str) -> None:
    class Late:
        def __getattr__(self, name: str) -> int:
            return 5

    late = Late()
    compiled = minicompile.compile(lambda x: x * late.q, backend="eager", fullgraph=True)
    assert torch.equal(compiled(X), X * 5)
    (late if where == "the object" else Late).q = 3  # type: ignore[union-attr]
    assert torch.equal(compiled(X), X * 3)
