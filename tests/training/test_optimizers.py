"""`minicompile.compile(optimizer.step)` for torch's optimizers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import minicompile

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamw foreach": (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01}),
    "tensor lr": (torch.optim.Adam, {"lr": torch.tensor(0.01)}),
}


def steps(name: str, count: int, schedule: bool) -> tuple[Any, list[Any], list[Any]]:
    """Take steps compiled and in eager; returns the compiled step and both sets of parameters."""
    make, options = OPTIMIZERS[name]
    ours = [torch.nn.Parameter(torch.randn(n, 3)) for n in (4, 5, 6)]
    theirs = copy.deepcopy(ours)
    optimizers = make(ours, **options), make(theirs, **options)
    compiled = minicompile.compile(optimizers[0].step)
    for _ in range(count):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        if schedule:
            for group in (*optimizers[0].param_groups, *optimizers[1].param_groups):
                group["lr"] = group["lr"] * 0.9
        compiled()
        optimizers[1].step()
    for one, other in zip(optimizers[0].state.values(), optimizers[1].state.values(), strict=True):
        torch.testing.assert_close(dict(one), dict(other))
    return compiled, ours, theirs


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", [False, True])
def test_parameters_and_state_are_eager_s(name: str, schedule: bool) -> None:
    _, ours, theirs = steps(name, 6, schedule)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_one_graph_serves_all_steps_and_learning_rates(name: str) -> None:
    compiled, _, _ = steps(name, 12, schedule=True)
    graphs = [graph for entry in compiled.entries for graph in entry.graphs]
    assert len(graphs) == 1 and graphs[0].compiled.kernels
