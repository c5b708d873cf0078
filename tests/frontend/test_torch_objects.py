"""What programs ask of tensors and modules beside operations: `data`, attributes, state dicts, legacy classes."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

import minicompile
from tests.support import assert_same

from .conftest import assert_like_eager
from .programs import Programs

torch.manual_seed(0)
X = torch.arange(6.0).reshape(2, 3)
LINEAR, NORMED = nn.Linear(3, 3), nn.utils.spectral_norm(nn.Linear(3, 3)).eval()
WHOLE, BROKEN = Programs(), Programs()


@WHOLE.program(X)
def data_is_read(x):
    y = x * 2
    return x @ LINEAR.weight.data, y.data + 1, LINEAR.bias.data.requires_grad, (LINEAR(x).data * 3).requires_grad


@WHOLE.program(X)
def attributes_of_results(x):
    y = x + 1
    y.kind, y.parts = "sum", [x * 2]
    y.parts.append(y.kind)
    z = y * 2
    return y, y.kind, hasattr(y, "parts"), hasattr(z, "kind"), y.parts


@WHOLE.program(X)
def state_dicts(x):
    state = LINEAR.state_dict(prefix="p.")
    return state, state._metadata, list(state), x @ state["p.weight"], hasattr(state, "other"), state["p.weight"].requires_grad


@WHOLE.program(X)
def legacy_constructors(x):
    return torch.Tensor([1, 2, 3]) + x, torch.Tensor(2, 3).shape, torch.FloatTensor([[1.5]]), torch.LongTensor([1, 2]), torch.DoubleTensor(2).dtype, torch.BoolTensor([1, 0]), type(x)(2, 2).shape


@WHOLE.program(X)
def legacy_classes(x):
    return isinstance(x, torch.FloatTensor), isinstance(x.double(), torch.FloatTensor), isinstance(x.long(), (int, torch.LongTensor)), x.type()


@WHOLE.program(X)
def slots_of_constants(x):
    return x + "abc".__len__() + (3).__add__(4), "abc".translate(str.maketrans("a", "b")), (2).__lt__(3), "a".__eq__("b"), [1, 2].__len__()


@WHOLE.program(X)
def old_parametrizations(x):
    return NORMED(x), torch.jit.annotate(int, 3)


@BROKEN.program(X)
def data_is_written(x):
    y = x.clone()
    y.data.mul_(2)
    d = y.data
    y.add_(1)
    return y, d


@BROKEN.program(X)
def data_of_a_leaf_is_written(x):
    w = LINEAR.weight
    before = w.sum()
    w.data += 1
    after = w.sum()
    w.data -= 1
    return before - after, w.requires_grad


@pytest.mark.parametrize("name", [*WHOLE, *BROKEN])
def test_like_eager(name: str) -> None:
    fn, args = {**WHOLE, **BROKEN}[name]
    assert_like_eager(fn, args, graphs=1 if name in WHOLE else None, fullgraph=name in WHOLE)


def test_attributes_are_on_the_object_that_is_returned() -> None:
    def fn(x: torch.Tensor) -> Any:
        y: Any = x + 1
        y.me = y
        return [y]

    (y,) = minicompile.compile(fn, fullgraph=True)(X)
    assert y.me is y


def test_an_ordered_dict_that_gets_an_attribute() -> None:
    def fn(x: torch.Tensor, state: Any) -> Any:
        return x + len(state), getattr(state, "version", None), hasattr(state, "version")

    compiled = minicompile.compile(fn, backend="eager")
    state: Any = OrderedDict(a=1)
    for version in (None, None, 3, 4):
        if version is not None:
            state.version = version
        assert_same(compiled(X, state), fn(X, state))


def test_a_saved_tensor_that_data_changes() -> None:
    """Eager does not notice, and takes the new numbers."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = w * x
        x.data.mul_(3)
        return y

    grads = []
    for call in (fn, minicompile.compile(fn, backend="eager"), minicompile.compile(fn)):
        w = torch.ones(2, 3, requires_grad=True)
        call(X.clone(), w).sum().backward()
        grads.append(w.grad)
    assert_same(grads[1], grads[0])
    assert_same(grads[2], grads[0])
