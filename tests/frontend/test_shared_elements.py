"""Writes to views whose elements share memory: eager's result, or eager's refusal, never one of functionalization's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

Write = Callable[[Tensor], Any]
VIEWS: dict[str, Write] = {
    "expanded": lambda x: x[:3].expand(4, 3),
    "expanded by a number": lambda x: x[0].expand(4, 3),
    "windows": lambda x: x.unfold(0, 3, 1),
    "as_strided": lambda x: x.as_strided((3, 2), (1, 1)),
    "a row of windows": lambda x: x.unfold(0, 3, 1)[1],
    "windows turned": lambda x: x.unfold(0, 3, 2).t(),
    "one of several": lambda x: x.unfold(0, 3, 1).unbind(0)[1],
    "windows apart": lambda x: x.unfold(0, 2, 2),
    "every other": lambda x: x[::2],
}
WRITES: dict[str, Write] = {
    "add_": lambda v: v.add_(1),
    "abs_": lambda v: v.abs_(),
    "zero_": lambda v: v.zero_(),
    "fill_": lambda v: v.fill_(3),
    "copy_": lambda v: v.copy_(v * 2),
    "element": lambda v: v.__setitem__(0, 7.0),
    "row": lambda v: v[0].mul_(3),
    "out=": lambda v: torch.add(v, 1, out=v),
    "cumsum_": lambda v: v.cumsum_(0),
    "masked_fill_": lambda v: v.masked_fill_(v > 2, 0.0),
    "foreach": lambda v: torch._foreach_add_([v], 1.0),
}


def outcome(fn: Any, x: Tensor) -> Any:
    try:
        return fn(x)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_write(view: str, write: str) -> None:
    def of_argument(x: Tensor) -> Any:
        v = VIEWS[view](x)
        WRITES[write](v)
        return v * 2, x.sum()

    def of_result(x: Tensor) -> Any:
        y = x - 1
        return *of_argument(y), y

    for fn in (of_argument, of_result):
        compiled = minicompile.compile(fn)
        for _ in range(2):
            mine, eagers = (torch.arange(-2.0, 4.0) for _ in range(2))
            assert_same(outcome(compiled, mine), outcome(fn, eagers))
            assert_same(mine, eagers)


@pytest.mark.parametrize("view", ["windows apart", "every other"])
def test_views_of_separate_elements_are_one_graph(view: str) -> None:
    compiled = minicompile.compile(lambda x: VIEWS[view](x.sin()).add_(1), fullgraph=True)
    assert_same(compiled(torch.ones(6)), VIEWS[view](torch.ones(6).sin()).add_(1))


def test_reading_them_beside_a_write_is_one_graph() -> None:
    def fn(x: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        y.add_(sizes.expand(4, 3).sum(0))
        y[1:] += y.unfold(0, 2, 1).sum(1)
        return y, y.unfold(0, 2, 1)

    args = torch.arange(3.0), torch.ones(3)
    assert_same(minicompile.compile(fn, fullgraph=True)(*args), fn(*args))


PARTS: dict[str, Write] = {
    "out= of the next rows": lambda x: torch.add(x[:-1], x[1:], out=x[1:]),
    "the next rows": lambda x: x[1:].add_(x[:-1]),
    "turned": lambda x: x.t().mul_(x),
    "an element": lambda x: x.sub_(x[0, 0]),
    "copied": lambda x: x[1:].copy_(x[:-1]),
    "rows apart": lambda x: x[2:].add_(x[:2]),
    "itself": lambda x: x.add_(x).mul_(x.view(4, 4)),
    "set": lambda x: x.__setitem__(slice(1, 3), x[2:]),
    "put": lambda x: operator.setitem(x, slice(1, 3), x[2:]),
    "put in a row": lambda x: operator.setitem(x, (0, ..., slice(1, None)), x[0, :-1]),
    "put apart": lambda x: operator.setitem(x, slice(None, 2), x[2:]),
    "put at the same place": lambda x: operator.setitem(x, 1, x[1]),
    "foreach": lambda x: torch._foreach_add_([x[:2], x[2:]], [x[1:3], x[2:]]),
}


@pytest.mark.parametrize("part", PARTS)
def test_writing_over_what_is_read(part: str) -> None:
    def fn(x: Tensor) -> Tensor:
        PARTS[part](x)
        return x * 2

    mine, eagers = (torch.arange(16.0).view(4, 4) for _ in range(2))
    assert_same(outcome(minicompile.compile(fn), mine), outcome(fn, eagers))
    assert_same(mine, eagers)


@pytest.mark.parametrize("part", ["rows apart", "itself", "put apart", "put at the same place"])
def test_writing_beside_what_is_read_is_one_graph(part: str) -> None:
    mine, eagers = (torch.arange(16.0).view(4, 4) for _ in range(2))
    compiled = minicompile.compile(PARTS[part], fullgraph=True)
    assert_same(outcome(compiled, mine), outcome(PARTS[part], eagers))
    assert_same(mine, eagers)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_argument_that_is_expanded_later(dynamic: bool) -> None:
    """Strides that are constants are guarded with the tensor; only free ones need a guard of their own."""

    def fn(x: Tensor) -> Tensor:
        return x.add_(1)

    compiled = minicompile.compile(fn, dynamic=dynamic)
    for make in (lambda: torch.ones(4, 3), lambda: torch.ones(1, 3).expand(4, 3), lambda: torch.ones(4, 3)):
        assert_same(outcome(compiled, make()), outcome(fn, make()))
    guards = [str(guard) for guard in compiled.entries[0].guards]
    assert any("do not share memory" in guard for guard in guards) == dynamic
