"""Tensors of the program's own classes: attributes, methods, and `__torch_function__`."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import minicompile

from ..support import assert_same
from .programs import Programs

X = torch.arange(6.0).reshape(2, 3) / 4
PROGRAMS = Programs()
LOG: list[Any] = []


class Plain(torch.Tensor):
    """A class without a word about torch's functions: results are of it, too."""

    K = 3

    def double(self):
        return self * 2

    @property
    def half(self):
        return self / 2

    @classmethod
    def make(cls, x):
        return x.as_subclass(cls)

    @property
    def scale(self):
        return self._scale

    @scale.setter
    def scale(self, value):
        self._scale = value * 2


class Deeper(Plain):
    def __getitem__(self, key):
        return super().__getitem__(key) * 2

    def __len__(self):
        return 7

    def __add__(self, other):
        return self.mul(other)

    def sin(self):
        return self.cos()


class Heard(torch.Tensor):
    """Writes down what it hears of."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((func.__name__, types))
        return super().__torch_function__(func, types, args, kwargs or {})


class Unwrapping(torch.Tensor):
    """As torchvision's: results are plain tensors."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs or dict())


class Tagged(torch.Tensor):
    """As MONAI's: an attribute that goes on to results."""

    @staticmethod
    def __new__(cls, x, tag=None):
        return torch.as_tensor(x).as_subclass(cls)

    def __init__(self, x, tag=None):
        self.tag = tag

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        if isinstance(result, cls) and not hasattr(result, "tag"):
            result.tag = next(arg.tag for arg in args if isinstance(arg, cls))
        return result


class Packed(nn.Parameter):
    """As bitsandbytes' and vLLM's: a parameter with attributes."""

    def __new__(cls, data, scale=None):
        made = torch.Tensor._make_subclass(cls, data, True)
        made.scale = scale
        return made

    def unpacked(self):
        return self * 2 + self.scale


class Typed(nn.Parameter):
    """As diffusers': results are of the class, made anew."""

    def __new__(cls, data, requires_grad=False, kind=None):
        made = torch.Tensor._make_subclass(cls, data, requires_grad)
        made.kind = kind
        return made

    def as_tensor(self):
        return torch.Tensor._make_subclass(torch.Tensor, self, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        kind = next((arg.kind for arg in args if isinstance(arg, cls)), None)
        return cls(result, kind=kind) if isinstance(result, torch.Tensor) else result


HANDLED = {}


def implements(function):
    def register(fn):
        HANDLED[function] = fn
        return fn

    return register


class Diagonal:
    """No tensor, but torch's functions take it: the example of torch's documentation."""

    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, Diagonal)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


@implements(torch.mean)
def _mean(one):
    return one.value.mean() / one.n


@implements(torch.add)
@implements(torch.Tensor.add)
def _add(one, other):
    return getattr(one, "value", one) + getattr(other, "value", other)


def plain() -> Any:
    return X.clone().as_subclass(Plain)


@PROGRAMS.program(plain, lambda: X)
def results_are_of_the_class(x, p):
    z = torch.cat([x.double() + x.half + x.K, p])
    a, b = z.split(2)
    rows = [row for row in x]
    return z, a, b.sum(), rows, len(x), x.shape, p + x, 2 - x, x.T, x.max(0), torch.relu(x), isinstance(p, Plain), x.detach()


@PROGRAMS.program(plain)
def made_here(x):
    y = Plain.make(x.as_subclass(torch.Tensor) * 2)
    y.tag = 3
    return y, y + 1, hasattr(y + 1, "tag"), y.as_subclass(torch.Tensor), type(y) is Plain


@PROGRAMS.program(plain)
def changed_in_place(x):
    x.add_(1)
    y = x * 2
    y[0] = 5
    x[1] = 7
    y += x
    x.scale = 4
    return y, x.scale, x is x.mul_(2)


@PROGRAMS.program(lambda: X.clone().as_subclass(Deeper))
def special_methods(x):
    return x[0], len(x), x + 3, x.sin(), X + 1


@PROGRAMS.program(lambda: X.clone().as_subclass(Heard), lambda: X)
def everything_is_heard(x, p):
    LOG.clear()
    y = torch.sin(x * 2 + 1)
    s = (y.shape, x.dtype, y.size(0), x.dim(), x.is_floating_point())
    y = 1 - y + p
    z = (x < 3, p < x, x[0], x.sum(dim=0, keepdim=True), -x, x.unsqueeze(0), torch.stack([x, x]), x.mT)
    y += 1
    return s, y, z, nn.functional.softmax(x, -1), list(LOG)


@PROGRAMS.program(lambda: X.clone().as_subclass(Unwrapping))
def results_are_plain(x):
    return x * 2, x.view(3, 2), type(x + 1) is torch.Tensor


@PROGRAMS.program(lambda: Tagged(X.clone(), {"a": 1}))
def attributes_go_on(x):
    y = (x * 2).sin()
    return y, y.tag["a"], Tagged(x + 1, 5).tag


@PROGRAMS.program(lambda: Typed(torch.ones(3, 3), kind=2))
def a_parameter_class_with_results(w):
    return X @ w.as_tensor() + w.kind, nn.functional.linear(X, w.t()).kind


@PROGRAMS.program(lambda: Diagonal(2, X))
def no_tensor_at_all(d):
    try:
        torch.sin(d)
    except TypeError:
        return torch.mean(d), torch.add(d, X), torch.add(X, d), X + d


@pytest.mark.parametrize("backend", ["eager", None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str, backend: Any) -> None:
    fn, makers = PROGRAMS[name]
    compiled = minicompile.compile(fn, fullgraph=True, **({"backend": backend} if backend else {}))
    for _ in range(2):
        args, others = [make() for make in makers], [make() for make in makers]
        expected, result = fn(*args), compiled(*others)
        _assert_same(result, expected)
        for arg, other in zip(args, others):
            if isinstance(arg, torch.Tensor):
                _assert_same(other, arg)
    assert len(compiled.entries) == 1


def _assert_same(result: Any, expected: Any) -> None:
    """Classes and attributes, too."""
    if isinstance(expected, (list, tuple)):
        assert type(result) is type(expected) and len(result) == len(expected)
        for one, other in zip(result, expected):
            _assert_same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert type(result) is type(expected) and vars(result) == vars(expected)
        assert_same(result.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
    else:
        assert result == expected


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Packed(torch.ones(3, 3), scale=4)
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        weight = self.weight.unpacked() if isinstance(self.weight, Packed) else self.weight
        return nn.functional.linear(x, weight, self.bias), type(weight), getattr(self.bias, "scale", 1)


def test_a_parameter_with_attributes() -> None:
    layer = Layer()
    compiled = minicompile.compile(layer, fullgraph=True)
    for scale in (4, 5):
        layer.weight.scale = scale
        found = []
        for call in (layer, compiled):
            layer.zero_grad()
            result, *rest = call(X)
            result.sum().backward()
            found.append((result.detach(), layer.weight.grad, rest))
        assert_same(found[1], found[0])


def test_gradients_reach_the_leaf() -> None:
    found = []
    for call in (torch.sin, minicompile.compile(lambda x: torch.sin(x), fullgraph=True)):
        leaf = X.clone().requires_grad_()
        result = call((leaf * 2).as_subclass(Plain))
        assert type(result) is Plain
        result.sum().backward()
        found.append(leaf.grad)
    assert_same(found[1], found[0])


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        y.tag = "doubled"
        return y

    @staticmethod
    def backward(ctx, g):
        return g * 2


def _tagged_sine(t: Any) -> Any:
    y = t.sin()
    y.tag = "sine"
    return y


@pytest.mark.parametrize("fn", [Doubling.apply, lambda x: checkpoint(_tagged_sine, x, use_reentrant=False)])
def test_what_bodies_make_keeps_class_and_attributes(fn: Any) -> None:
    for x in (X, X.as_subclass(Plain)):
        found = []
        compiled = minicompile.compile(lambda x: (y := fn(x), y.tag, type(y), y * 3), backend="eager", fullgraph=True)
        for call in (lambda x: (y := fn(x), y.tag, type(y), y * 3), compiled):
            leaf = x.detach().requires_grad_()
            made, tag, kind, result = call(leaf)
            result.sum().backward()
            found.append((vars(made), tag, kind, type(result), leaf.grad.as_subclass(torch.Tensor).tolist()))
        assert found[1] == found[0]


def test_classes_and_a_break_between() -> None:
    """An entry is for one class, and the class stays over a break."""

    def run(x: Any) -> Any:
        y = x * 2
        minicompile.graph_break()
        return y + 1, x.as_subclass(torch.Tensor) + y

    compiled = minicompile.compile(run, backend="eager")
    for x in (X, plain(), X, X.as_subclass(Unwrapping)):
        _assert_same(compiled(x), run(x))


def test_nobody_hears_of_guards() -> None:
    """A call in which nothing is written down makes no further entries."""
    LOG.clear()
    x = X.clone().as_subclass(Heard)
    compiled = minicompile.compile(lambda x: x.as_subclass(torch.Tensor) + 1, fullgraph=True)
    for _ in range(3):
        assert type(compiled(x)) is torch.Tensor
    assert not LOG
