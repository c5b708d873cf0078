"""Functions with a cache, as einops has them: what they remember may be any object, and sizes may vary."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

CALLS: list[Any] = []


class Recipe:
    """What a pattern says, worked out once."""

    def __init__(self, order: list[int], groups: dict[str, list[int]]) -> None:
        self.order = order
        self.groups = groups


@functools.lru_cache(8)
def recipe_of(pattern: str) -> Recipe:
    CALLS.append(pattern)
    left, right = (side.split() for side in pattern.split("->"))
    return Recipe([left.index(name) for name in right], {"all": list(range(len(right)))})


@functools.lru_cache(8)
def sizes_of(recipe: Recipe, shape: tuple[int, ...]) -> Any:
    sizes = [shape[place] for place in recipe.order]
    return sizes, None, {"count": len(recipe.groups["all"])}, shape[0] * shape[1]


@functools.cache
def noted(n: int) -> int:
    CALLS.append(n)
    return n * 2


@functools.cache
def listed(n: int) -> list[int]:
    return [n, n]


@functools.cache
def mask_of(n: int) -> Tensor:
    return torch.ones(n, n).tril()


@functools.lru_cache
class Scale:
    """A class with a cache: one object for each argument."""

    def __init__(self, k: int) -> None:
        self.k = k


partly = functools.lru_cache(functools.partial(lambda k, n: [k, n], 2))
"""It has no name."""


def turned(x: Tensor, pattern: str) -> Any:
    recipe = recipe_of(pattern)
    sizes, nothing, counts, product = sizes_of(recipe, tuple(x.shape))
    assert nothing is None
    return x.permute(recipe.order).reshape(sizes) * counts["count"], product


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    yield
    for cached in (recipe_of, sizes_of, noted, listed, mask_of):
        cached.cache_clear()
    CALLS.clear()


def program(x: Tensor) -> Any:
    return turned(x, "a b -> b a"), turned(x + 1, "a b -> a b"), turned(x, "a b -> b a")


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_one_graph_like_eager(dynamic: bool | None) -> None:
    compiled = minicompile.compile(program, backend="eager", fullgraph=True, dynamic=dynamic)
    for rows in (2, 3, 5, 7, 2):
        x = torch.arange(rows * 4.0).reshape(rows, 4)
        assert_same(compiled(x), program(x))
    assert len(compiled.entries) == {None: 2, True: 1, False: 4}[dynamic]
    assert CALLS == ["a b -> b a", "a b -> a b"]


def test_the_cache_is_the_programs() -> None:
    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    x = torch.arange(8.0).reshape(2, 4)
    expected = program(x)
    assert_same(compiled(x), expected)
    recipe_of("a b -> b a").order[:] = [0, 1]  # it stays so for whoever asks
    sizes_of.cache_clear()
    assert_same(compiled(x), program(x))
    recipe_of.cache_clear()
    assert_same(compiled(x), expected)
    assert CALLS.count("a b -> b a") == 2


def test_effects_happen_once_for_each_size() -> None:
    compiled = minicompile.compile(lambda x: x * noted(x.shape[0]), dynamic=True)
    for rows in (2, 3, 2, 4, 3):
        assert_same(compiled(torch.ones(rows)), torch.ones(rows) * rows * 2)
    assert CALLS == [2, 3, 4]


@pytest.mark.parametrize("changes", [True, False])
def test_what_is_remembered_is_one_object(changes: bool) -> None:
    def fn(x: Tensor) -> Any:
        found = listed(x.shape[0])
        if changes:
            found.append(1)
        return x + len(found), found

    found = []
    for run in (fn, minicompile.compile(fn, dynamic=True)):
        results = [run(torch.ones(rows)) for rows in (2, 3, 2, 3)]
        found.append([*results, results[0][1] is results[2][1], results[0][1] is results[1][1]])
        listed.cache_clear()
    assert_same(*found)
    assert found[1][4:] == [True, False]


@pytest.mark.parametrize("dynamic", [True, False])
def test_tensors_that_are_remembered(dynamic: bool) -> None:
    def fn(x: Tensor) -> Any:
        mask = mask_of(x.shape[0])
        mask[0] += 1
        return x * mask, mask

    found = []
    for run in (fn, minicompile.compile(fn, dynamic=dynamic)):
        results = [run(torch.ones(rows, rows)) for rows in (2, 3, 2, 3)]
        found.append([results, results[0][1] is results[2][1]])
        mask_of.cache_clear()
    assert_same(*found)


def test_whatever_is_called_may_have_a_cache() -> None:
    def fn(x: Tensor) -> Any:
        return x * Scale(3).k + partly(5)[1], Scale(3) is Scale(3)

    assert_same(minicompile.compile(fn, backend="eager", fullgraph=True)(torch.ones(3)), fn(torch.ones(3)))
