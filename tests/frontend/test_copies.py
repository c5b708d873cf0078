"""`copy.deepcopy` of tensors: the copy's memory is its own, and shared as the original's is."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8


@dataclasses.dataclass
class Config:
    k: int = 1
    parts: list = dataclasses.field(default_factory=list)
    tensor: Any = None


def written(x: Any) -> Any:
    one = copy.deepcopy(x)
    one.add_(1)
    return one, x


def in_a_dataclass(x: Any) -> Any:
    config = Config(parts=[1, 2], tensor=x)
    fields = dataclasses.asdict(config)
    fields["tensor"].mul_(2)
    changed, copied = dataclasses.replace(config, k=3), copy.deepcopy(config)
    return fields, vars(changed), dataclasses.astuple(config), vars(copied), x


def met_twice(x: Any) -> Any:
    result = copy.deepcopy({"parts": [x, 1, x], "other": x + 1})
    result["parts"][0].zero_()
    return result


WHOLE: dict[str, tuple[Callable[..., Any], Any]] = {
    "written": (written, X),
    "turned": (written, X.t()),
    "in a dataclass": (in_a_dataclass, X),
    "met twice": (met_twice, X),
}
BROKEN: dict[str, tuple[Callable[..., Any], Any]] = {
    "with gaps": (written, X[:, ::2]),
    "views of one": (lambda x: (made := copy.deepcopy([x, x.t(), x + 1]))[0].add_(1) + made[1].sum(), X),
    "a parameter": (lambda x: copy.deepcopy(x), torch.nn.Parameter(X.clone(), requires_grad=False)),
    "wants gradients": (lambda x: copy.deepcopy(x), X.clone().requires_grad_()),
}


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str) -> None:
    fn, x = WHOLE[name]
    assert_like_eager(fn, (x,), graphs=1, fullgraph=True)


@pytest.mark.parametrize("name", BROKEN)
def test_for_real(name: str) -> None:
    fn, x = BROKEN[name]
    compiled = minicompile.compile(fn)
    for _ in range(2):
        expected, actual = fn(x), compiled(x)
        assert_same(actual, expected)
        if isinstance(expected, torch.Tensor):
            assert (type(actual), actual.requires_grad) == (type(expected), expected.requires_grad)
    assert compiled.breaks


def test_what_shares_memory_in_one_call_only() -> None:
    def function(a: Any, b: Any) -> Any:
        made = copy.deepcopy([a, b])
        made[0].add_(1)
        return made

    compiled, z = minicompile.compile(function), torch.zeros(4)
    for a, b in ((z[:2], torch.ones(2)), (z[:2], z[2:]), (z[:3], z[1:]), (z[:2], z[:2]), (z[:2], z[2:])):
        assert_same(compiled(a, b), function(a, b))
