"""Train a function or module compiled and in eager, and compare everything that a user could see."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import minicompile
from minicompile.config import config
from minicompile.runtime.autograd import TrainingGraph

from ..support import assert_same


def leaf(*shape: int) -> torch.Tensor:
    """A leaf that requires a gradient; the same numbers each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).requires_grad_()


def const(*shape: int) -> torch.Tensor:
    """A tensor that requires none; other numbers than `leaf`'s."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


def fresh(args: Any) -> Any:
    """Copies of the tensors in `args`, leaves with the same requires_grad and strides."""

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        copied = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())
        return copied.requires_grad_(value.requires_grad)

    return tree_map(one, args)


def differentiable(outputs: Any) -> list[torch.Tensor]:
    return [out for out in tree_leaves(outputs) if isinstance(out, torch.Tensor) and out.requires_grad]


def tangents_for(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(out.shape, generator=generator).to(out.dtype) for out in outputs]


def run_backward(outputs: Any) -> None:
    """Backward from all differentiable outputs."""
    found = differentiable(outputs)
    torch.autograd.backward(found, tangents_for(found))


def gradients(args: Any) -> list[torch.Tensor | None]:
    return [leaf.grad for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor) and leaf.is_leaf]


def compiled_graph(compiled: Any) -> TrainingGraph:
    """The one training graph of a compiled function."""
    (record,) = [graph for entry in compiled.entries for graph in entry.graphs]
    assert isinstance(record.compiled, TrainingGraph), getattr(record.compiled, "reason", record.compiled)
    return record.compiled


def check(
    function: Callable[..., Any],
    *args: Any,
    backward: Callable[[Any], None] = run_backward,
    calls: int = 2,
    fullgraph: bool = True,
    **options: Any,
) -> Any:
    """Results, mutated arguments and gradients are eager's on each of `calls` calls; returns the compiled function.

    `backward(outputs)` runs a backward pass; gradients are compared, None included.
    """
    compiled = minicompile.compile(function, fullgraph=fullgraph, **options)
    with config.patch(strict=True, fallback_random=True):
        for call in range(calls):
            ours, theirs = fresh(args), fresh(args)
            torch.manual_seed(call)
            expected = function(*theirs)
            torch.manual_seed(call)
            actual = compiled(*ours)
            assert_same(tree_map(_detached, actual), tree_map(_detached, expected))
            assert [t.requires_grad for t in tensors(actual)] == [t.requires_grad for t in tensors(expected)]
            backward(actual)
            backward(expected)
            assert_same(tree_map(_detached, ours), tree_map(_detached, theirs))
            assert_gradients(gradients(ours), gradients(theirs))
    return compiled


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def assert_gradients(actual: Sequence[Any], expected: Sequence[Any], rtol: float | None = None) -> None:
    """The same gradients are there, and equal within the dtype's tolerance (relative to each gradient's largest)."""
    assert [g is None for g in actual] == [g is None for g in expected]
    for one, other in zip(actual, expected, strict=True):
        if other is not None:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            scale = other.detach().abs().max().item() if other.numel() else 0.0
            tolerance = {torch.float64: 1e-9, torch.bfloat16: 2e-2, torch.float16: 5e-3}.get(other.dtype, 1e-5)
            tolerance = tolerance if rtol is None else rtol
            torch.testing.assert_close(one.detach(), other.detach(), rtol=tolerance, atol=tolerance * scale + 1e-12)


def train_alike(
    module: torch.nn.Module,
    loss: Callable[[torch.nn.Module, int], torch.Tensor],
    make_optimizer: Callable[..., Any],
    steps: int = 5,
    compile_module: Callable[..., Any] = minicompile.compile,
) -> Any:
    """Train two copies with `loss(module, step)`; losses, parameters and buffers agree. Returns the compiled one."""
    eager, ours = copy.deepcopy(module), copy.deepcopy(module)
    compiled = compile_module(ours)
    with config.patch(strict=True, fallback_random=True):
        histories = [_train(net, each, loss, make_optimizer, steps) for net, each in ((eager, eager), (ours, compiled))]
    torch.testing.assert_close(histories[1], histories[0], rtol=1e-5, atol=1e-5)
    for (name, one), other in zip(ours.state_dict().items(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    return compiled


def _train(net: Any, run: Any, loss: Any, make_optimizer: Any, steps: int) -> list[float]:
    torch.manual_seed(0)
    optimizer = make_optimizer(net.parameters())
    history = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(run, step)
        value.backward()
        optimizer.step()
        history.append(value.item())
    return history
