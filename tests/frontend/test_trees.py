"""Trees of tensors (`torch.utils._pytree`), and loops over them that torch has as operators: one graph each."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import collections

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch.utils import _pytree as pytree

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
ROWS = torch.linspace(0.1, 2.0, 21).reshape(7, 3)
Pair = collections.namedtuple("Pair", "a b")
WHOLE, LOOPS = Programs(), Programs()
whole, loop = WHOLE.program, LOOPS.program


@whole(X, {"a": X, "b": [X + 1, (X, 2)]})
def mapped(x, tree):
    doubled, first = pytree.tree_map(lambda t: t * 2, tree), pytree.tree_leaves(tree)[0]
    return doubled, first + x, pytree.tree_map_only(torch.Tensor, lambda t: t.sum(), tree)


@whole(X)
def flattened_and_back(x):
    leaves, spec = pytree.tree_flatten({"k": x, "n": Pair(x + 1, [x]), "o": collections.OrderedDict(z=x)})
    return pytree.tree_unflatten([leaf * 3 for leaf in leaves], spec), len(leaves), spec.num_leaves


@whole(X)
def several_at_once(x):
    sums = pytree.tree_map(lambda a, b: a + b, [x, {"q": x}], [x, {"q": x * 2}])
    return sums, pytree.tree_all(lambda t: t.ndim == 2, [x, x]), pytree.tree_any(lambda t: False, (x,))


@whole(X)
def structures(x):
    same = pytree.tree_structure([x, (x,)]) == pytree.tree_structure([1, (2,)])
    return x + 1, same, pytree.tree_structure([x]) == pytree.tree_structure((x,))


def joined(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


@loop(ROWS)
def associative(x):
    both = associative_scan(joined, (x, x + 1), dim=-1, reverse=True, combine_mode="generic")
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), both


@loop(ROWS[:4])
def associative_over_an_even_number(x):
    return associative_scan(joined, (x, x + 1), dim=0, combine_mode="generic")


@loop(ROWS)
def associative_that_is_refused(x):
    try:
        return associative_scan(lambda a, b: a + b, x, 0)
    except ValueError as error:
        return x, str(error)


@loop(ROWS)
def scanned(x):
    return scan(lambda carry, y: (carry + y, carry * y), torch.zeros(3), x)


@loop(ROWS)
def scanned_backwards(x):
    def step(carry, y):
        return {"a": carry["a"] * y[0]}, (y[0] + carry["a"], y[1] * 2)

    return scan(step, {"a": torch.ones(7)}, (x, x * 2), dim=1, reverse=True)


@loop(X)
def mapped_over_rows(x):
    return torch_map(lambda row, w: row * w.sum(), x, torch.ones(3)), torch_map(lambda t: (t["k"] * 2, t["k"].sum()), {"k": x})


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_like_eager(name: str, dynamic: bool | None) -> None:
    fn, (x,) = LOOPS[name]
    compiled = minicompile.compile(fn, fullgraph=True, dynamic=dynamic)
    assert_same(compiled(x), fn(x))


def test_a_long_loop_is_not_unrolled() -> None:
    def function(x):
        return torch_map(lambda row: row * 2, x) + 1

    compiled, x = minicompile.compile(function), torch.rand(65, 2)
    assert_same(compiled(x), x * 2 + 1)
    assert "more than 64 steps" in compiled.breaks[0].reason
