"""torch.cond with a tensor, and torch.while_loop: one graph, with eager's results, and gradients."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

import minicompile
from minicompile.errors import GraphBreakError

from ..support import assert_same
from .programs import Programs

X = torch.arange(6.0).reshape(2, 3) / 4
NET = nn.Linear(3, 3)
ONE, OTHER = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
BRANCHES, LOOPS, BROKEN = Programs(), Programs(), Programs()


def plain_cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


def plain_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Any) -> Any:
    while cond_fn(*carried):
        carried = body_fn(*carried)
    return carried


@BRANCHES.program()
def of_two(x, cond=torch.cond):
    return cond(x.sum() > 2, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,)) * 3


@BRANCHES.program()
def structures_and_closures(x, cond=torch.cond):
    k, y = 3.0, x * 2

    def true(a, d):
        return [a + y * k, {"s": d["b"].sum(), "n": 4}]

    def false(a, d):
        return [NET(a), {"s": d["b"].mean() + k, "n": 4}]

    made = cond(x.mean() > 0.5, true, false, (x + 1, {"b": x}))
    return made[0] - made[1]["s"], made[1]["n"]


@BRANCHES.program()
def nested(x, cond=torch.cond):
    def inner(a):
        return cond(a.max() > 1, lambda b: b * x, lambda b: b - x, (a,))

    return cond(x.sum() > 2, inner, lambda a: inner(a * 2) + 1, (x,)).relu()


@BRANCHES.program()
def modules_as_branches(x, cond=torch.cond):
    return cond((x > 1).any(), ONE, OTHER, (x,)).sum(0)


@BRANCHES.program()
def without_operands(x, cond=torch.cond):
    return x + cond(x.sum() > 2, lambda: x.exp(), lambda: x.neg())


@BRANCHES.program()
def one_branch_is_constant(x, cond=torch.cond):
    return cond(x.sum() > 2, lambda x: x * 2, lambda x: torch.ones(2, 3), (x,)) + x


@BRANCHES.program()
def given_back_unchanged(x, cond=torch.cond):
    y = x + 1
    a, b = cond(x.sum() > 2, lambda x, y: (x.clone(), y * 1), lambda x, y: (y + 0, y * 2), (x, y))
    b = b + 1
    return a, b, y


@BRANCHES.program()
def in_a_row(x, cond=torch.cond):
    for k in range(3):
        x = cond(x.sum() > 2, lambda x: x / (k + 1), lambda x: x * 2 + k, (x,))
    return x


@BRANCHES.program()
def result_changed_in_place(x, cond=torch.cond):
    y = cond(x.sum() > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))
    y += 1
    y[0] = 0
    return y


@BRANCHES.program()
def of_whole_numbers(x, cond=torch.cond):
    n = cond(x.sum() > 2, lambda x: (x * 4).long(), lambda x: x.argsort(), (x.detach(),))
    return x * n


@LOOPS.program()
def counted(x, loop=while_loop):
    i, y = loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.1 + x), (torch.tensor(0), x))
    return y + i


@LOOPS.program()
def until_it_converges(x, loop=while_loop):
    a = x.abs() + 0.1
    (r,) = loop(lambda r: ((r * r - a) ** 2).sum() > 1e-6, lambda r: ((r + a / r) / 2,), (torch.ones(2, 3),))
    return r


@LOOPS.program()
def with_a_module_and_a_tree(x, loop=while_loop):
    def step(i, state):
        h = torch.tanh(NET(state["h"]))
        return i + 1, {"h": h, "sum": state["sum"] + h}

    i, state = loop(
        lambda i, state: i < x.shape[0] + 2, step, (torch.zeros((), dtype=torch.int64), {"h": x, "sum": x * 0})
    )
    return state["h"], state["sum"].sum() + i


@LOOPS.program()
def never_entered(x, loop=while_loop):
    return loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1] + 1


@LOOPS.program()
def branch_in_a_loop(x, loop=while_loop):
    def step(i, y):
        return i + 1, torch.cond(i % 2 == 0, lambda y: y * 2, lambda y: y - x, (y,))

    return loop(lambda i, y: i < 4, step, (torch.tensor(0), x))[1]


@LOOPS.program()
def loop_in_a_loop(x, loop=while_loop):
    def step(i, y):
        inner = loop(lambda j, z: j < i, lambda j, z: (j + 1, z + x), (torch.zeros_like(i), y))
        return i + 1, inner[1] * 1.5

    return loop(lambda i, y: i < 4, step, (torch.tensor(0), x))[1]


@LOOPS.program()
def by_a_number(x, loop=while_loop):
    i, y, _ = loop(lambda i, y, k: i < k, lambda i, y, k: (i + 1, y * 2 + i * x, k), (0, x, 4))
    return y + i


def _with_gradients(fn: Any, x: Tensor, *args: Any) -> tuple[Any, ...]:
    x = x.clone().requires_grad_()
    params = [*NET.parameters(), *ONE.parameters(), *OTHER.parameters()]
    result = fn(x, *args)
    ends = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, Tensor) and t.requires_grad]
    for p in params:
        p.grad = None
    sum((t * t).sum() for t in ends).backward()
    zero = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in (x, *params)]
    return [t.detach() if isinstance(t, Tensor) else t for t in torch.utils._pytree.tree_leaves(result)], zero


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", [*BRANCHES, *LOOPS])
def test_one_graph_like_eager(name: str, backend: str) -> None:
    fn, plain = (BRANCHES[name][0], plain_cond) if name in BRANCHES else (LOOPS[name][0], plain_loop)
    compiled = minicompile.compile(fn, backend=backend, fullgraph=True)
    with torch.no_grad():
        for x in (X, X + 1, X - 1):
            assert_same(compiled(x), fn(x, plain))
    assert len(compiled.entries) == 1
    for x in (X, X + 1, X - 1):
        torch.testing.assert_close(_with_gradients(compiled, x), _with_gradients(fn, x, plain))
    assert len(compiled.entries) == 2


def test_gradients_as_torchs_operator_has_them() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 2, ONE, OTHER, (x,))

    found = []
    for run in (minicompile.compile(fn, fullgraph=True), fn):
        for p in (*ONE.parameters(), *OTHER.parameters()):
            p.grad = None
        result = run(X.clone().requires_grad_())
        result.sum().backward()
        found.append([result.requires_grad, *(p.grad for p in (*ONE.parameters(), *OTHER.parameters()))])
    torch.testing.assert_close(*found)


def test_branches_are_compiled() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 2, lambda x: x.sin() * 2 + 1, lambda x: x.cos() - 3, (x,)) * 3

    compiled = minicompile.compile(fn, fullgraph=True)
    assert_same(compiled(X), fn(X))
    assert minicompile.explain(fn)(X).kernel_count == 4


def test_without_gradients_inside() -> None:
    """Sections of a graph may begin and end in a block that sets the grad mode."""

    @torch.no_grad()
    def decorated(x: Tensor, cond: Any = torch.cond, loop: Any = while_loop) -> Tensor:
        y = cond(x.sum() > 2, lambda x: NET(x).sin() * 2, lambda x: x.cos(), (x,)) * 3
        return loop(lambda i, y: i < 3, lambda i, y: (i + 1, NET(y) * 1.1 + x), (torch.tensor(0), y))[1] + 1

    def block(x: Tensor, cond: Any = torch.cond, loop: Any = while_loop) -> Tensor:
        with torch.no_grad():
            y = cond(x.sum() > 2, lambda x: NET(x).sin() * 2, lambda x: x.cos(), (x,)) * x.max()
            with torch.enable_grad():
                z = cond(x.sum() > 2, lambda x: NET(x) * 2, lambda x: x.cos(), (x,))
        return y * x + z

    for fn in (decorated, block):
        compiled = minicompile.compile(fn, fullgraph=True)
        for x in (X, X + 1):
            assert_same(compiled(x), fn(x, plain_cond, plain_loop))
            assert torch.is_grad_enabled()
        found = []
        for run, args in ((compiled, ()), (fn, (plain_cond, plain_loop))):
            x = X.clone().requires_grad_()
            NET.zero_grad()
            result = run(x, *args)
            if result.requires_grad:
                result.sum().backward()
            found.append((result.detach(), result.requires_grad, x.grad, NET.weight.grad))
        torch.testing.assert_close(*found)
        kinds = [type(graph.compiled).__name__ for entry in compiled.entries for graph in entry.graphs]
        assert set(kinds) == {"ChainedGraph"}


def test_other_sizes() -> None:
    def fn(x: Tensor) -> Any:
        y = torch.cond(x.sum() > 2, lambda x: x.sin() * x.shape[0], lambda x: x.cos(), (x,))
        return while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y + x), (torch.tensor(0), y))

    compiled = minicompile.compile(fn, fullgraph=True, dynamic=True)
    for rows in (2, 3, 4):
        x = torch.ones(rows, 3)
        assert_same(
            compiled(x),
            plain_loop(lambda i, y: i < rows, lambda i, y: (i + 1, y + x), (torch.tensor(0), x.sin() * rows)),
        )
    assert len(compiled.entries) == 1


def test_dropout_draws_as_it_is_reached() -> None:
    def fn(x: Tensor, cond: Any = torch.cond) -> Tensor:
        return cond(x.sum() > 2, lambda x: nn.functional.dropout(x, 0.5), lambda x: x * 1, (x,)) + torch.rand(2, 3)

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for x in (X, X + 1):
        results = []
        for run, args in ((compiled, ()), (fn, (plain_cond,))):
            torch.manual_seed(3)
            results.append(run(x, *args))
        assert_same(*results)


LOG: list[int] = []


@BROKEN.program()
def side_effect(x):
    return torch.cond(x.sum() > 2, lambda x: (LOG.append(1), x * 2)[1], lambda x: x * 1, (x,))


@BROKEN.program()
def written_outside(x):
    return torch.cond(x.sum() > 2, lambda x: x.add_(1), lambda x: x * 1, (x,))


@BROKEN.program()
def other_sizes(x):
    return torch.cond(x.sum() > 2, lambda x: x[0], lambda x: x * 1, (x,))


@BROKEN.program()
def other_dtypes(x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y > 0), (torch.tensor(0), x))


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_operator_can_do_is_a_break(name: str) -> None:
    with pytest.raises(GraphBreakError):
        minicompile.compile(BROKEN[name][0], fullgraph=True)(X.clone())
