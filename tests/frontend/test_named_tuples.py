"""Classes that a program makes in a call: named tuples, annotated ones, and what their attributes hold."""

from __future__ import annotations

import abc
import collections
from collections import namedtuple
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

from . import annotated_programs
from .programs import Programs

X = torch.randn(3)
PROGRAMS = Programs()


@PROGRAMS.program(X)
def namedtuple_inside(x: Tensor) -> Any:
    Point = namedtuple("Point", "a b")
    point = Point(x + 1, x * 2)
    a, b = point
    return point.a + point.b + a * b, Point._fields, len(point), repr(Point(1, 2)), Point.__name__, Point.__module__


@PROGRAMS.program(X)
def defaults_that_only_the_call_knows(x: Tensor) -> Any:
    Point = collections.namedtuple("Point", ["a", "b"], defaults=[x * 3])
    point = Point(x + 1)
    return point._replace(a=2).b * 2, point._asdict(), Point._field_defaults, Point


@PROGRAMS.program(X)
def instances_and_their_class(x: Tensor) -> Any:
    Point = namedtuple("Point", "a b")
    points = [Point(x, 1), Point._make([x * 2, 2])]
    return points, Point, type(points[0]) is Point, isinstance(points[1], tuple), sum(point.a for point in points)


@PROGRAMS.program(X)
def renamed_fields_and_keywords(x: Tensor) -> Any:
    Point = namedtuple("Point", "class b", rename=True, module="elsewhere")
    return Point(x, 1)._fields, Point(b=3, _0=x)._0 + 1, Point


@PROGRAMS.program(X)
def refused_names(x: Tensor) -> Any:
    try:
        namedtuple("Point", "a a")
    except ValueError as error:
        return x + 1, str(error)


@PROGRAMS.program(X)
def matched_by_fields(x: Tensor) -> Any:
    Stats = namedtuple("Stats", "total average")
    match Stats(x.sum(), x.mean()):
        case Stats(total=total, average=average):
            return total - average


@PROGRAMS.program(X)
def subclass_of_one(x: Tensor) -> Any:
    class Point(namedtuple("Base", "a b")):
        __slots__ = ()

        def total(self) -> Tensor:
            return self.a + self.b

    return Point(x, x + 1).total(), Point(x, 2), isinstance(Point(1, 2), tuple)


@PROGRAMS.program(X)
def class_statement(x: Tensor) -> Any:
    class Point(NamedTuple):
        """A point."""

        a: Tensor
        b: int = 2
        c: Any = None

        def total(self) -> Tensor:
            return self.a * self.b

        @property
        def twice(self) -> int:
            return self.b * 2

    point = Point(x + 1)
    return point.total(), point.twice, point, Point.__doc__, Point._field_defaults, Point


@PROGRAMS.program(X)
def class_attributes_that_only_the_call_knows(x: Tensor) -> Any:
    class Holder:
        tensor = x + 1
        items = [x]
        table = {"a": x}
        pair = (x, [1])

    holder = Holder()
    holder.items.append(2)
    return Holder.tensor, Holder.items, holder.table, Holder.pair, holder.pair[1] is Holder.pair[1]


@PROGRAMS.program(X)
def abstract_methods(x: Tensor) -> Any:
    class Base(abc.ABC):
        @abc.abstractmethod
        def value(self) -> Any: ...

        @property
        @abc.abstractmethod
        def factor(self) -> int: ...

    class Half(Base):
        def value(self) -> Any:
            return x

    class Whole(Half):
        @property
        def factor(self) -> int:
            return 3

    made = []
    for cls in (Base, Half, Whole):
        try:
            made.append(cls().value() * 2)
        except TypeError:
            made.append(sorted(cls.__abstractmethods__))
    return made, Whole().factor, isinstance(Whole(), Base), Base


def test_an_abstract_class_that_goes_out_is_abstract() -> None:
    made = minicompile.compile(PROGRAMS["abstract_methods"][0], backend="eager", fullgraph=True)(X)[-1]
    assert made.__abstractmethods__ == {"value", "factor"}
    with pytest.raises(TypeError, match="abstract"):
        made()


class Naming(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.name = cls.__name__
        return made


class Named(metaclass=Naming):
    def __init__(self, value: Any = 1) -> None:
        self.value = value


@PROGRAMS.program(X)
def made_through_a_metaclass(x: Tensor) -> Any:
    named = Named(x * 2)
    return named.value, named.name, Named().value


PROGRAMS.update(annotated_programs.PROGRAMS)


def facts(value: Any) -> Any:
    """A value, with classes and named tuples taken apart: those made in two calls are never the same."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return facts(type(value)), [facts(item) for item in value]
    if isinstance(value, type):
        fields = {name: facts(default) for name, default in getattr(value, "_field_defaults", {}).items()}
        return value.__qualname__, value.__module__, value.__doc__, getattr(value, "_fields", ()), fields
    if isinstance(value, FunctionType):
        return value.__qualname__, value.__annotations__
    if isinstance(value, dict):
        return {key: facts(item) for key, item in value.items()}
    is_plain = isinstance(value, Sequence) and not isinstance(value, str)
    return [facts(item) for item in value] if is_plain else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        assert_same(facts(compiled(*args)), facts(fn(*args)))


def test_every_call_makes_its_own_class() -> None:
    compiled = minicompile.compile(lambda x: namedtuple("Point", "a")(x + 1), backend="eager", fullgraph=True)
    first, second = compiled(X), compiled(X)
    assert type(first) is not type(second) and type(first).__module__ == __name__
