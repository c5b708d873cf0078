"""Modes of torch and tensors of a class that answers for itself, around and inside a compiled function."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import minicompile

from ..support import assert_same

X = torch.arange(6.0).reshape(2, 3) / 4


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(func.__name__)
        return torch.cos(*args) if func is torch.sin else func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(str(func))
        return func(*args, **(kwargs or {})) * (2 if func is torch.ops.aten.sin.default else 1)


def computes(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + x.sum()


@pytest.mark.parametrize("mode", [Functions, Operators])
def test_a_mode_around_hears_what_it_hears_in_eager(mode: Any) -> None:
    compiled = minicompile.compile(computes)
    assert_same(compiled(X), computes(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            mine, eagers = mode(), mode()
            with mine:
                result = compiled(X)
            with eagers:
                expected = computes(X)
            assert torch.equal(result, expected) and mine.log == eagers.log
    assert_same(compiled(X), computes(X))
    assert len(compiled.entries) == 2 and compiled.entries[0].eager is None


@pytest.mark.parametrize("mode", [Functions, Operators])
def test_a_mode_inside(mode: Any) -> None:
    def fn(x: torch.Tensor) -> Any:
        before = torch.sin(x)
        with mode() as m:
            y = computes(x)
        return before, y, torch.sin(y), list(m.log)

    compiled = minicompile.compile(fn)
    for _ in range(3):
        assert_same(compiled(X), fn(X))


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, cls):
            result.tag = getattr(args[0], "tag", None) if args else None
        return result


class Unit:
    def __init__(self, value: torch.Tensor, unit: str) -> None:
        self.value, self.unit = value, unit

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unit = next(arg.unit for arg in args if isinstance(arg, cls))
        return cls(func(*(arg.value if isinstance(arg, cls) else arg for arg in args), **(kwargs or {})), unit)


def tagged() -> Tagged:
    made = X.clone().as_subclass(Tagged)
    made.tag = "m"
    return made


def changes(t: Any) -> Any:
    t.tag, t.count = "changed", 3
    return t + 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda t, x: t + 1,
        lambda t, x: x * t if t.tag == "m" else t,
        lambda t, x: (x * 2).as_subclass(Tagged) + 1,
        lambda t, x: changes(t),
        lambda t, x: torch.stack([t, x]).sum(0),
    ],
)
def test_subclasses_with_attributes(fn: Any) -> None:
    compiled = minicompile.compile(fn)
    for _ in range(2):
        result, expected = compiled(tagged(), X), fn(tagged(), X)
        assert type(result) is type(expected) and result.tag == expected.tag
        assert_same(result.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))


def test_objects_that_are_no_tensors() -> None:
    def fn(u: Unit, x: torch.Tensor) -> Any:
        made = torch.add(torch.mul(u, x), x)
        return made.unit, made.value * 2

    compiled = minicompile.compile(fn)
    for unit in ("m", "s"):
        assert_same(compiled(Unit(X, unit), X), fn(Unit(X, unit), X))
