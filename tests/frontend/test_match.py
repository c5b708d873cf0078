"""`match` on every kind of pattern: one graph, as in eager."""

# ruff: noqa: E501 (a table)

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
from torch import Tensor

from .conftest import assert_like_eager

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
Point = namedtuple("Point", "a b")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Box:
    width: Any
    height: Any = 1


class Plain:
    __match_args__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k


def classify(value: Any) -> Any:
    match value:
        case Color.RED:
            return "red"
        case None:
            return "none"
        case True | False:
            return "bool"
        case int(n) if n > 10:
            return "big", n
        case int() | float():
            return "number"
        case str() as text:
            return "text", text
        case []:
            return "empty"
        case [x, [y, *more]]:
            return "nested", x, y, more
        case [first, *rest]:
            return "sequence", first, rest
        case {"kind": "circle", "r": r}:
            return "circle", r
        case {"kind": kind, **others}:
            return "kind", kind, others
        case {}:
            return "mapping"
        case Box(width=w, height=2):
            return "box 2", w
        case Box(w, h):
            return "box", w, h
        case Plain(Plain(k)):
            return "deep", k
        case Plain(k):
            return "plain", k
        case Tensor(shape=(rows, _)):
            return "tensor", rows
        case _:
            return "other"


VALUES: list[Any] = [
    Color.RED, Color.BLUE, None, True, 3, 30, 2.5, "text", [], (), [1, [2, 3, 4]], [1, 2, 3], (1, 2), range(3), Point(1, 2),
    {"kind": "circle", "r": 2}, {"kind": "square", "a": 1, "b": 2}, {}, {"z": 1}, OrderedDict(kind=1), Box(3, 2), Box(3),
    Plain(4), Plain(Plain(5)), X, b"ab", {1, 2}, object,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_from_outside(value: Any) -> None:
    def fn(x: Tensor) -> Any:
        return x + 1, classify(value)

    compiled = assert_like_eager(fn, (X,), fullgraph=True)
    assert len(compiled.entries) == 1


def test_values_made_inside() -> None:
    def fn(x: Tensor) -> Any:
        made = [[x, [x + 1, 2]], {"kind": "circle", "r": x}, Box(x, 2), Plain(Plain(x)), Point(1, x), x, "s"]
        return [classify(value) for value in made]

    assert_like_eager(fn, (X,), fullgraph=True)


def test_the_subject_decides_at_every_call() -> None:
    def fn(x: Tensor, value: Any) -> Any:
        match value:
            case {"k": k}:
                return x * k
            case [a, b]:
                return x + a + b
            case _:
                return x

    assert_like_eager(fn, (X, {"k": 2}), (X, [1, 2]), (X, (1, 2, 3)), (X, {"k": 3, "z": 1}), fullgraph=True)
