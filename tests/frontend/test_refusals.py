"""Branches on data of which one side only raises: no break, eager's results, eager's exceptions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import minicompile
from minicompile.frontend.segments import MAX_MISSED_FACTS
from tests.frontend.refusing_programs import PROGRAMS, normal, truth_of
from tests.support import assert_same

BAD = (float("nan"), float("inf"), 1e7)


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with minicompile.config.patch(strict=True):
        yield


def _raised(function: Callable[..., Any], *args: Any) -> BaseException | None:
    try:
        function(*args)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["auto", "eager"])
def test_one_graph(program: Callable[..., Any], backend: str) -> None:
    compiled = minicompile.compile(program, backend=backend, fullgraph=True)
    for seed in range(2):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        wanted = program(x)  # torch's own table of divergences grows with the first use of one
        assert_same(compiled(x), wanted)
    assert len(compiled.entries) == 1 and not compiled.breaks


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("bad", BAD)
def test_eager_s_exceptions(program: Callable[..., Any], bad: float) -> None:
    compiled = minicompile.compile(program)
    good = torch.randn(4, 3)
    compiled(good)
    x = good.clone()
    x[1, 2] = bad
    wanted, got = _raised(program, x), _raised(compiled, x)
    assert (type(got), str(got)) == (type(wanted), str(wanted))
    assert_same(compiled(good), program(good))


def test_gradients() -> None:
    compiled = minicompile.compile(normal, fullgraph=True)
    x = torch.randn(4, 3, requires_grad=True)
    wanted, got = (torch.autograd.grad(f(x).sum(), x)[0] for f in (normal, compiled))
    torch.testing.assert_close(got, wanted)


def test_what_happened_before_a_refusal_happens_once() -> None:
    """A graph that writes to its input has changed something that eager cannot start over from: there it ends."""

    def program(x: torch.Tensor, seen: list[int], inside: bool) -> torch.Tensor:
        seen.append(1)
        if inside:
            x.add_(1)
        if (x > 10).any():
            raise ValueError(seen)
        if not inside:
            x.add_(1)
        seen.append(2)
        return x * 2

    for inside in (True, False):
        compiled = minicompile.compile(program)
        for number in (1.0, 2.0, 20.0, 3.0):
            results = []
            for function in (program, compiled):
                x, seen = torch.full((3,), number), list[int]()
                error = _raised(function, x, seen, inside)
                results.append((x, seen, str(error)))
            assert_same(results[1], results[0])


def test_a_caller_that_catches() -> None:
    """What is refused again and again is decided by a branch in the end."""

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            if (x > 1).any():
                raise ValueError("large")
            return x * 2
        except ValueError:
            return x * 3

    compiled = minicompile.compile(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for number in (0.0, *[2.0] * (MAX_MISSED_FACTS + 2), 0.0, 2.0):
            x = torch.full((3,), number)
            assert_same(compiled(x), program(x))
    assert compiled.breaks


@pytest.mark.parametrize("size", [1, 2])
def test_more_than_one_element_is_no_condition(size: int) -> None:
    x = torch.ones(size)
    assert str(_raised(minicompile.compile(truth_of), x)) == str(_raised(truth_of, x))
