"""Odd things to look at: what has no bytecode, what runs piece by piece, classes, what prints and what raises."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import minicompile

X = torch.ones(4)


def generator(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x + 1


async def coroutine(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@minicompile.compile
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Adder:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def prints(x: torch.Tensor) -> torch.Tensor:
    print("once")
    return x + 1


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (torch.relu, "it is written in C"),
        (functools.partial(torch.add, other=X), "it is written in C"),
        (generator, "it is a generator"),
        (coroutine, "it is a coroutine"),
        (torch.nn.functional.has_torch_function, "it is written in C"),
        (functools.partial(decorated), "it is compiled already"),
    ],
)
def test_why_nothing_is_compiled(fn: Callable[..., Any], why: str) -> None:
    made = minicompile.explain(fn)(X)
    assert made.ran_wholly_in_eager
    assert f"runs as if minicompile were not there, because {why}" in " ".join(str(made).split())
    seen = minicompile.explore(fn, X)
    assert [call.outcome for call in seen.calls] == ["eager"] and why in seen.facts["eager"][0]


@pytest.mark.parametrize(
    "fn", [lambda x: x + 1, Adder(), Adder().method, functools.partial(lambda a, b: a * b, X), decorated]
)
def test_odd_functions_are_looked_at(fn: Callable[..., Any]) -> None:
    assert minicompile.explain(fn)(X).kernel_count == 1
    if fn is not decorated:
        assert minicompile.explore(fn, X).calls[0].outcome == "compiled"
    assert minicompile.compare(fn, X, inductor=False, rounds=1).errors == {"minicompile": 0.0}


@pytest.mark.parametrize("look", [minicompile.explain, minicompile.explore, minicompile.compare])
def test_a_class_is_refused_and_left_alone(look: Callable[..., Any]) -> None:
    before = Adder.__call__
    with pytest.raises(TypeError, match="Adder is a class: make an object of it"):
        look(Adder)
    assert Adder.__call__ is before


def test_comparing_prints_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = str(minicompile.compare(prints, X, inductor=False, rounds=2))
    assert capsys.readouterr().out == "once\n"
    assert max(map(len, text.splitlines())) <= 120 and "to float64" in text
