"""The parts of a training step that a program writes by hand: gradients read and set, clipped, parameters replaced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import minicompile

from ..support import assert_same


def trained(sizes: tuple[int, ...] = (3, 4, 2)) -> nn.Module:
    """A module with gradients."""
    torch.manual_seed(0)
    module = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)))
    module(torch.ones(2, sizes[0])).pow(2).sum().backward()
    return module


def state(module: nn.Module) -> list[Any]:
    return [(p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in module.parameters()]


def sgd(module):
    with torch.no_grad():
        for p in module.parameters():
            p -= 0.1 * p.grad
            p.grad = None


def replaced(module):
    for p in module.parameters():
        p.grad = p.grad * 2 + 1
    return [p.grad.sum() for p in module.parameters()]


def deleted(module):
    p = module[0].weight
    del p.grad
    return p.grad is None, module[1].weight.grad is None


def swapped(module):
    first, second = module[0].weight, module[1].weight
    old = first.grad
    first.grad = torch.zeros_like(first)
    second.grad = second.grad.neg()
    return old, first.grad is old, second.grad


def zeroed(module):
    for p in module.parameters():
        if p.grad is not None:
            p.grad.detach_() if p.grad.grad_fn is not None else p.grad.requires_grad_(False)
            p.grad.zero_()


def accumulated(module):
    for p in module.parameters():
        p.grad += 1


def marked(module):
    module[0].weight.note = "seen"
    return getattr(module[0].weight, "note", None), hasattr(module[1].weight, "note")


def norm(module):
    return torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)


def largest(module):
    return torch.nn.utils.clip_grad_norm_(list(module.parameters()), 0.1, norm_type=float("inf"))


def single(module):
    return torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1, foreach=False)


def clamped(module):
    return torch.nn.utils.clip_grad_value_(module.parameters(), 0.05)


def own_gradient(module):
    try:
        module[0].weight.grad = module[0].weight
    except RuntimeError as error:
        return str(error)


def wrong_gradient(module):
    try:
        module[0].weight.grad = torch.zeros(7)
    except RuntimeError as error:
        return str(error)


WHOLE = [sgd, replaced, deleted, swapped, accumulated, marked, norm, largest, single, clamped]
BROKEN = [zeroed, own_gradient, wrong_gradient]


@pytest.mark.parametrize("program", WHOLE + BROKEN, ids=lambda program: program.__name__)
def test_gradients_in_a_program(program: Any) -> None:
    found = []
    for run in (minicompile.compile(program, fullgraph=program in WHOLE), program):
        module = trained()
        results = [run(module)]
        module(torch.ones(2, 3)).sum().backward()
        results += [run(module), state(module), [vars(p) for p in module.parameters()]]
        found.append(results)
    assert_same(*found)


def test_a_gradient_that_is_set_is_that_very_tensor() -> None:
    module, gradient = trained(), torch.ones(4, 3)

    def assign(p, g):
        before = p.grad
        p.grad = g
        return before, p.grad

    before = module[0].weight.grad
    old, new = minicompile.compile(assign, fullgraph=True)(module[0].weight, gradient)
    assert old is before and new is gradient and module[0].weight.grad is gradient


def test_setting_a_gradient_tells_two_parameters_from_one() -> None:
    def tell(a, b):
        a.grad = None
        return b.grad is None

    compiled = minicompile.compile(tell)
    first, second = trained(), trained()
    assert [compiled(first[0].weight, first[1].weight), compiled(second[0].weight, second[0].weight)] == [False, True]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return self.second(self.first(x).tanh()) * self.count


def parameters_of(module: nn.Module, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    shapes = {name: tensor.shape for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    return {name: torch.randn(shapes[name]).requires_grad_(name != "count") for name in names}


@pytest.mark.parametrize("names", [("first.weight",), ("first.weight", "second.bias"), ("first.bias", "count")])
@pytest.mark.parametrize("tie", [True, False])
def test_a_functional_call(names: tuple[str, ...], tie: bool) -> None:
    def call(module, parameters, x):
        return torch.func.functional_call(module, parameters, (x,), tie_weights=tie).pow(2).sum()

    found = []
    for run in (minicompile.compile(call, fullgraph=True), call):
        torch.manual_seed(0)
        module = Tied()
        parameters = parameters_of(module, names)
        losses = []
        for _ in range(2):
            losses.append(run(module, parameters, torch.ones(2, 3)))
            losses[-1].backward()
        assert module.second.weight is module.first.weight
        found.append([losses, [p.detach() for p in parameters.values()], [p.grad for p in parameters.values()],
                      module.state_dict()])  # fmt: skip
    assert_same(*found)


def test_a_functional_call_refuses_two_values_for_tied_weights() -> None:
    def call(module, parameters, x):
        return torch.func.functional_call(module, parameters, (x,))

    module = Tied()
    parameters = {"first.weight": torch.ones(3, 3), "second.weight": torch.zeros(3, 3)}
    with pytest.raises(ValueError, match="multiple values for keys"):
        minicompile.compile(call)(module, parameters, torch.ones(2, 3))
