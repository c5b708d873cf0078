"""Every front end with every back end: the same values, gradients, effects and sizes, whichever way a function goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import minicompile
from minicompile.backends import list_backends
from tests.support import assert_same

Tensor = torch.Tensor
FRONTENDS = {"ours": minicompile.compile, "Dynamo": torch.compile}
BACKENDS = {"ours": {"ours": "auto", "Dynamo": "minicompile"}, "inductor": "inductor", "eager": "eager"}


def compiled(frontend: str, backend: str, fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    name = BACKENDS[backend]
    torch._dynamo.reset()
    return FRONTENDS[frontend](fn, backend=name if isinstance(name, str) else name[frontend], **options)


def straight(x: Tensor, log: list[int]) -> tuple[Tensor, Tensor]:
    p = torch.softmax(x, -1)
    log.append(1)
    return -(p * torch.log(p + 1e-8)).sum(-1), x.t()


def broken(x: Tensor, log: list[int]) -> Tensor:
    y = torch.tanh(x) * 2
    log.append(2)
    if y.sum() > 0:
        return y + 1
    return y - 1


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_same_values_effects_and_gradients(frontend: str, backend: str) -> None:
    def both(x: Tensor, log: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        return *straight(x, log), broken(x, log)

    seen = []
    for call in (both, compiled(frontend, backend, both)):
        x, log = torch.linspace(-2, 3, 12).reshape(3, 4).requires_grad_(), []
        results = call(x, log)
        sum(result.square().sum() for result in results).backward()
        seen.append((*results, x.grad, log))
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("backend", ["ours", "eager"])
def test_dynamic_sizes_and_fullgraph(frontend: str, backend: str) -> None:
    call = compiled(frontend, backend, lambda x: torch.relu(x) * x.shape[0], dynamic=True, fullgraph=True)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 4)
        assert_same(call(x), torch.relu(x) * rows)
    if frontend == "ours":  # where Dynamo refuses, torch 2.13 leaves its evaluator of frames to the tests that follow
        with pytest.raises(minicompile.errors.GraphBreakError):
            compiled(frontend, backend, broken, fullgraph=True)(torch.ones(3), [])


@pytest.mark.parametrize("name", ["aot_eager", "eager", "inductor", "cudagraphs", "minicompile"])
def test_names_of_torchs_are_ours(name: str) -> None:
    assert name in list_backends()


@pytest.mark.parametrize("name", ["aot_eager", "aot_eager_decomp_partition", "minicompile"])
def test_our_front_end_takes_any_back_end(name: str) -> None:
    x = torch.randn(4, 5, requires_grad=True)
    call = minicompile.compile(straight, backend=name)
    assert_same(call(x, []), straight(x, []))


@pytest.mark.parametrize("options", [{"options": {"exact_rounding": True}}, {"mode": "max-autotune-no-cudagraphs"}])
def test_options_reach_our_back_end_through_dynamo(options: dict[str, Any]) -> None:
    x = torch.randn(5, 6).bfloat16()
    fn = lambda x: (x * 1.1 + 0.3) * 0.7  # noqa: E731
    result = torch.compile(fn, backend="minicompile", **options)(x)
    torch.testing.assert_close(result, fn(x), rtol=1.6e-2, atol=2e-3)
    if "options" in options:
        assert torch.equal(result, fn(x))


def test_registered_back_ends() -> None:
    seen: list[int] = []

    def counting(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(len(gm.graph.nodes))
        return gm.forward

    minicompile.register_backend("counting", counting)
    assert "counting" in minicompile.list_backends()
    assert torch.equal(minicompile.compile(lambda x: x + 1, backend="counting")(torch.ones(2)), torch.full((2,), 2.0))
    assert seen == [3]
