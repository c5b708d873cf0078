"""`verify=True` and the frontend: a wrong graph or wrong glue is found, and checking leaves no trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from minicompile.config import config
from minicompile.errors import VerificationError
from minicompile.frontend.graph import GraphBuilder
from minicompile.frontend.values.constant import ConstantValue

X = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))


def program(x: torch.Tensor) -> Any:
    y = torch.relu(x) * 2
    z = torch.exp(y * 0.1)
    return (z - y).sum(-1), 3


EXP_LINE = program.__code__.co_firstlineno + 2


def wrong_call(patch: pytest.MonkeyPatch) -> None:
    """The frontend writes sin into the graph where the program says exp."""
    right = GraphBuilder.call

    def call(self: Any, tr: Any, target: Any, args: Any, kwargs: Any) -> Any:
        return right(self, tr, torch.sin if target is torch.exp else target, args, kwargs)

    patch.setattr(GraphBuilder, "call", call)


def wrong_glue(patch: pytest.MonkeyPatch) -> None:
    """The entry returns 4 where the program says 3."""
    right = ConstantValue.build

    def build(self: Any, glue: Any) -> str:
        return right(ConstantValue(4) if self.value == 3 else self, glue)

    patch.setattr(ConstantValue, "build", build)


def test_wrong_glue_is_told_from_a_wrong_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_glue(monkeypatch)
    with pytest.raises(VerificationError, match="capture, first at what is around the graph") as caught:
        minicompile.compile(program, verify=True)(X)
    assert "result 1 of the captured function differs from eager: 4, eager has 3" in str(caught.value)


def test_a_wrong_node_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_call(monkeypatch)
    with pytest.raises(VerificationError) as caught:
        minicompile.compile(program, verify=True)(X)
    assert "stage at fault: capture, first at torch.sin" in str(caught.value)
    assert f"{__file__}:{EXP_LINE}" in str(caught.value) and "program" in str(caught.value)


def test_warn_runs_in_eager_and_leaves_inputs_as_eager_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def writes(x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        return into.add_(torch.exp(x)) * 2

    wrong_call(monkeypatch)
    ours, eager = torch.ones(6, 9), torch.ones(6, 9)
    compiled = minicompile.compile(writes, verify="warn")
    with pytest.warns(RuntimeWarning, match="stage at fault: capture"):
        assert torch.equal(compiled(X, ours), writes(X, eager))
    assert torch.equal(ours, eager)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(X, ours), writes(X, eager)) and not compiled.entries


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(9)
        self.register_buffer("seen", torch.zeros(9))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += x.sum(0)
        return self.norm(x) + self.seen


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(9)
        self.register_buffer("seen", torch.zeros(9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.sum(0)
        own = torch.zeros(9)
        own += self.seen
        return self.norm(x) + own


@pytest.mark.parametrize("kind", [Counting, Norm])
def test_effects_happen_once(kind: Any) -> None:
    ours, eager = kind(), kind()
    compiled = minicompile.compile(ours, verify=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), eager(X))
    for (name, one), other in zip(ours.state_dict().items(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, msg=name)
    assert getattr(ours, "calls", 0) == getattr(eager, "calls", 0)


def counter() -> Callable[[torch.Tensor], torch.Tensor]:
    count = 0

    def run(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x + count

    return run


def broken(x: torch.Tensor) -> torch.Tensor:
    number = 1
    read = lambda: number  # noqa: E731
    minicompile.graph_break()
    number = number + 1
    return x + read()


def from_iterator(it: Any) -> Any:
    return torch.ones(2) * next(it)


@pytest.mark.parametrize("make", [counter, lambda: broken, lambda: lambda x: x + torch.tensor([1.0] * 9).mul_(2)])
def test_state_outside_of_tensors(make: Any) -> None:
    compiled, eager = minicompile.compile(make(), verify=True), make()
    for _ in range(3):
        assert torch.equal(compiled(X), eager(X))


def test_an_iterator_is_not_consumed_twice() -> None:
    it = iter([1, 2, 3])
    compiled = minicompile.compile(from_iterator, verify=True)
    assert [compiled(it)[0].item() for _ in range(3)] == [1, 2, 3]


def test_history_is_recorded_once() -> None:
    leaf = torch.ones(3, requires_grad=True)
    y = leaf * 1

    def triples(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x.sum()

    with config.patch(strict=True):
        minicompile.compile(triples, verify=True)(y).backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [3, 3, 3]


def test_random_numbers_are_drawn_once() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(9)

    with config.patch(fallback_random=True, strict=True):
        torch.manual_seed(3)
        ours = minicompile.compile(noisy, verify=True)(X)
        torch.manual_seed(3)
        assert torch.equal(ours, noisy(X))


def test_the_users_exception_comes_out() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x.view(7)

    with pytest.raises(RuntimeError, match="shape") as caught:
        minicompile.compile(wrong, verify=True)(X)
    assert not isinstance(caught.value, VerificationError)

