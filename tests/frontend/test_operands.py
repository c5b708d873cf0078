"""Which operand answers for an operator, and what answers where an operator or function has no method: as in Python."""

# ruff: noqa: PLW1641, PLR0124, B015, RUF012 (the programs are what users write)

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from .conftest import assert_like_eager
from .programs import Programs

X = torch.arange(4.0)
PROGRAMS = Programs()
program = PROGRAMS.program


class Base:
    def __add__(self, other: Any) -> Any:
        return "Base.add"

    def __radd__(self, other: Any) -> Any:
        return "Base.radd"

    def __iadd__(self, other: Any) -> Any:
        return "Base.iadd"

    def __mul__(self, other: Any) -> Any:
        return "Base.mul"

    def __lt__(self, other: Any) -> Any:
        return "Base.lt"

    def __gt__(self, other: Any) -> Any:
        return "Base.gt"

    def __eq__(self, other: Any) -> Any:
        return "Base.eq"

    def __sub__(self, other: Any) -> Any:
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return "Base.rsub"

    def named(self) -> str:
        return "Base.named"


class Derived(Base):
    def __radd__(self, other: Any) -> Any:
        return "Derived.radd"

    def __rmul__(self, other: Any) -> Any:
        return "Derived.rmul"

    def __gt__(self, other: Any) -> Any:
        return "Derived.gt"

    def __eq__(self, other: Any) -> Any:
        return "Derived.eq"

    def named(self) -> str:
        return super().named() if hasattr(super(), "named") else "none"

    def unnamed(self) -> str:
        return getattr(super(), "unnamed", lambda: "nobody's")()


class SameWords(Base):
    pass


class Items(list[Any]):
    def __radd__(self, other: Any) -> Any:
        return "Items.radd"

    def __eq__(self, other: Any) -> Any:
        return "Items.eq"


class Rounded:
    def __round__(self, digits: int | None = None) -> Any:
        return "rounded", digits

    def __floor__(self) -> int:
        return 1

    def __ceil__(self) -> int:
        return 2

    def __trunc__(self) -> int:
        return 3

    def __abs__(self) -> str:
        return "abs"


@program(X)
def a_derived_class_answers_first(x: Tensor) -> Any:
    a, b, c = Base(), Derived(), SameWords()
    d: Any = a
    d += b
    e: Any = Derived()
    e *= b
    f: Any = a
    f *= b
    sums = a + b, b + a, a + c, c + b, a - b, a * b, b * a, d, e, f
    return x + 1, sums, a < b, b < a, a > b, a == b, b == a, a == c, a != b, b in [a]


@program(X)
def also_of_a_builtin(x: Tensor) -> Any:
    return x + 1, [1] + Items([2]), [1] == Items([1]), Items([1]) == [1], [1] + [2]


@program(X)
def what_super_has(x: Tensor) -> Any:
    b = Derived()
    return x + 1, b.named(), b.unnamed()


@program(X)
def functions_that_ask_the_object(x: Tensor) -> Any:
    n: Any = Rounded()
    return x + 1, round(n), round(n, 2), math.floor(n), math.ceil(n), math.trunc(n), abs(n)


OUTSIDE = Derived()


@program(X)
def bound_methods_are_compared(x: Tensor) -> Any:
    a, b = Derived(), OUTSIDE
    method = a.named
    return x + 1, a.named == a.named, a.named == b.named, a.named != a.unnamed, b.named == b.named, method in [b.named]


@program(X)
def no_gradient_no_function(x: Tensor) -> Any:
    return (x * 2 if x.grad_fn is None else x), (x + 1).grad_fn


@program(X)
def unequal_to_what_has_no_equality(x: Tensor) -> Any:
    kinds = (object, len, Base(), x.sum, Base, math)
    values = (1, "a", 1.5, (1,), [1], {}, {1})
    return x + 1, [value == other for value in values for other in kinds], kinds[0] in [1, ""]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    assert_like_eager(fn, args, fullgraph=True)
