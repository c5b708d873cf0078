"""Errors that Python itself raises, caught inside: one graph, with Python's own words."""

# ruff: noqa: B018, F821, PLC0414 (the programs are what users write)

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile

from .conftest import assert_like_eager

X = torch.arange(4.0)


class Plain:
    pass


def takes(a: Any, *, k: Any = 1) -> Any:
    return a, k


def takes_more(a: Any, b: Any, /, c: Any = 1, *, k: Any) -> Any:
    return a, b, c, k


def unpacked(items: Any) -> Any:
    a, b = items
    return a, b


def stored(owner: Any, key: Any) -> None:
    owner[key] = 1


def deleted(owner: Any, key: Any) -> None:
    del owner[key]


ERRORS: dict[str, Callable[[dict[str, int]], Any]] = {
    "missing key": lambda d: d["z"],
    "missing key popped": lambda d: d.pop("z"),
    "missing key deleted": lambda d: deleted(d, "z"),
    "empty dict": lambda d: {}.popitem(),
    "empty OrderedDict": lambda d: OrderedDict().popitem(),
    "empty list popped": lambda d: [].pop(),
    "popped out of range": lambda d: [1].pop(3),
    "removed from list": lambda d: [1].remove(2),
    "index in list": lambda d: [1].index(5),
    "index in tuple": lambda d: (1, 2).index(3),
    "list out of range": lambda d: [1][4],
    "tuple out of range": lambda d: (1,)[d["a"] + 3],
    "tuple stored to": lambda d: stored((), 0),
    "tuple deleted from": lambda d: deleted((), 0),
    "list by name": lambda d: [1, 2][str(d)],  # type: ignore[call-overload]
    "empty set popped": lambda d: set().pop(),
    "removed from set": lambda d: {1}.remove(2),
    "attribute of None": lambda d: d.get("z").foo,  # type: ignore[attr-defined]
    "attribute of int": lambda d: getattr(d["a"], "q"),  # noqa: B009
    "attribute of module": lambda d: torch.nope,
    "length of int": lambda d: len(d["a"]),  # type: ignore[arg-type]
    "iterated int": lambda d: list(d["a"]),  # type: ignore[call-overload]
    "starred int": lambda d: [*d["a"]],  # type: ignore[misc]
    "called int": lambda d: d["a"](),  # type: ignore[operator]
    "largest of none": lambda d: max([]),
    "smallest of nothing": lambda d: min(),  # type: ignore[call-overload]
    "undefined name": lambda d: undefined_name,  # type: ignore[name-defined]
    "too few arguments": lambda d: takes(),  # type: ignore[call-arg]
    "too many arguments": lambda d: takes(1, 2, 3),  # type: ignore[call-arg,misc]
    "unknown keyword": lambda d: takes(1, b=1),  # type: ignore[call-arg]
    "argument given twice": lambda d: takes(1, a=1),  # type: ignore[misc]
    "several are missing": lambda d: takes_more(),  # type: ignore[call-arg]
    "positional only": lambda d: takes_more(a=1, b=2, k=3),  # type: ignore[call-arg]
    "keyword only": lambda d: takes_more(1, 2, 3),  # type: ignore[call-arg]
    "of a lambda": lambda d: (lambda a: a)(),  # type: ignore[call-arg,misc]
    "too few values": lambda d: unpacked([1]),
    "pairs of one": lambda d: dict([(1, 2), (1,)]),  # type: ignore[list-item]
    "pairs of none": lambda d: dict([1]),  # type: ignore[list-item]
    "length of an object": lambda d: len(Plain()),  # type: ignore[arg-type]
    "item of an object": lambda d: Plain()[0],  # type: ignore[index]
    "item stored to an object": lambda d: stored(Plain(), 0),
    "item deleted from an object": lambda d: deleted(Plain(), 0),
    "iterated object": lambda d: list(Plain()),  # type: ignore[call-overload]
    "starred object": lambda d: [*Plain()],  # type: ignore[misc]
    "called object": lambda d: Plain()(),  # type: ignore[operator]
    "next of an object": lambda d: next(Plain()),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", ERRORS)
def test_one_graph_like_eager(name: str) -> None:
    fails = ERRORS[name]

    def fn(x: Tensor, d: dict[str, int]) -> Any:
        try:
            found = fails(d)
        except Exception as error:
            found = type(error), str(error), error.args
        return x + 1, found

    assert_like_eager(fn, (X, {"a": 1}), fullgraph=True)


def test_starred_objects_behind_a_break() -> None:
    def fn(x: Tensor, o: Any) -> Any:
        try:
            return [x, *o]
        except TypeError as error:
            return str(error)

    assert minicompile.compile(fn, backend="eager")(X, object()) == fn(X, object())


def test_negative_powers_of_open_ints() -> None:
    def fn(x: Tensor, n: int) -> Any:
        return x + 1, n**-1, n**-2 + 1, n**2

    assert_like_eager(fn, *[(X, n) for n in (3, 4, -7, 5)])
