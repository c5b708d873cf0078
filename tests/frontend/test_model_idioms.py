"""What libraries of models do around their arithmetic: registries, signatures, names of classes, layers in slices."""

# ruff: noqa: E501, C416, SIM118 (the programs are what users write)

from __future__ import annotations

import functools
import inspect
import types
from collections import UserDict
from collections.abc import Mapping, MutableMapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import minicompile

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


class Registry(MutableMapping):
    """Looks in its own dict first, then in that of the class."""

    shared: dict[str, Any] = {"relu": torch.relu}

    def __init__(self) -> None:
        self.own: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self.own[key] if key in self.own else self.shared[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.own[key] = value

    def __delitem__(self, key: str) -> None:
        del self.own[key]

    def __iter__(self) -> Any:
        return iter({**self.shared, **self.own})

    def __len__(self) -> int:
        return len(self.shared.keys() | self.own.keys())


REGISTRY = Registry()


@program(X)
def mappings_of_the_standard_library(x: Tensor) -> Any:
    found = REGISTRY.get("relu", None)
    local = Registry()
    local["tanh"] = torch.tanh
    absent = REGISTRY.get("none", 3)
    return found(x), "relu" in REGISTRY, "none" in REGISTRY, absent, list(local), len(local), local.pop("tanh")(x), isinstance(local, Mapping), [k for k, _ in REGISTRY.items()]


@program(X)
def names_of_classes(x: Tensor) -> Any:
    return str(type(x)), repr(Registry), f"{int}", str(REGISTRY.__class__), type(x).__name__, f"{Registry!r}", "torch" in str(type(x)), str(nn.Linear)


def chunked(fn: Any, *tensors: Tensor) -> Any:
    count = len(inspect.signature(fn).parameters)
    if count != len(tensors):
        raise ValueError(f"{count} arguments")
    return fn(*tensors)


def positional(a: Any, /, b: Any, *rest: Any, c: int = 3, **named: Any) -> Any:
    return a


@functools.wraps(positional)
def wrapping(*args: Any, **kwargs: Any) -> Any:
    return positional(*args, **kwargs)


class Layer(nn.Module):
    def __init__(self, k: float = 1.0) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.tensor(k))

    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return x * self.k * scale

    def chunk(self, x: Tensor) -> Tensor:
        return x + self.k


LAYER = Layer()
LAYERS = nn.ModuleList([Layer(float(k)) for k in range(1, 5)])


@program(X)
def signatures(x: Tensor) -> Any:
    def local(p: Any, q: Any = x) -> Any:
        return p + q

    names = [(p.name, str(p.kind), p.default is p.empty) for p in inspect.signature(positional).parameters.values()]
    forward = inspect.signature(LAYER.forward).parameters
    return chunked(LAYER.chunk, x), chunked(local, x, x), names, list(inspect.signature(wrapping).parameters), "scale" in forward, forward["scale"].default, len(forward), "q" in set(inspect.signature(local).parameters.keys()), inspect.signature(local).parameters["q"].default is x, list(forward), "self" in forward, inspect.signature(Layer.forward).parameters.get("self") is None


@program(X)
def signatures_go_out(x: Tensor) -> Any:
    s = inspect.signature(LAYER.forward)
    return s, s.parameters["scale"], s.parameters["x"].kind, x


@program(X)
def signature_that_does_not_fit(x: Tensor) -> Any:
    try:
        chunked(LAYER.chunk, x, x)
    except ValueError as error:
        return str(error), x


@program(X)
def annotations_of_functions(x: Tensor) -> Any:
    def plain(a, b=1):  # type: ignore[no-untyped-def]
        return a

    def annotated(a: Tensor, *, b: int = 1) -> Any:
        return a

    @functools.wraps(annotated)
    def wrapper(*args):  # type: ignore[no-untyped-def]
        return annotated(*args)

    plain.__annotations__["a"] = "changed"
    return plain.__annotations__, list(annotated.__annotations__), wrapper.__annotations__ is annotated.__annotations__, hasattr(plain, "__wrapped__"), hasattr(plain, "__mro__"), wrapper(x)


@program(X)
def code_of_functions(x: Tensor) -> Any:
    code = positional.__code__
    return "b" in code.co_varnames, code.co_varnames[: code.co_argcount], LAYER.forward.__func__.__code__.co_argcount, x


@program(X)
def layers_in_slices(x: Tensor) -> Any:
    for layer in LAYERS[:2]:
        x = layer(x)
    for layer in LAYERS[2:]:
        x = x + layer(x, scale=0.5)
    return x, LAYERS[-1](x), len(LAYERS[1:3]), LAYERS[0] is LAYERS[:1][0]


@program(X, {"a": 1})
def read_only_views(x: Tensor, d: Any) -> Any:
    view = types.MappingProxyType(d)
    d["b"] = x
    return view["a"], list(view), len(view), "b" in view, view.get("z"), dict(view.items())["b"] is x, bool(view), type(view) is types.MappingProxyType


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]


def test_a_read_only_view_goes_out() -> None:
    d = {"a": 1}
    view = minicompile.compile(lambda x, d: types.MappingProxyType(d), backend="eager", fullgraph=True)(X, d)
    d["b"] = 2
    assert type(view) is types.MappingProxyType and view == d


def test_a_signature_given_by_hand_or_by_another_object_is_asked_for_really() -> None:
    def given(a: Any) -> Any:
        return a

    given.__signature__ = inspect.signature(positional)  # type: ignore[attr-defined]

    def fn(x: Tensor) -> Any:
        return [len(inspect.signature(f).parameters) for f in (given, functools.partial(positional, 1), UserDict, LAYER)], x

    assert_like_eager(fn, (X,), eager=True)


def test_a_replaced_default_and_a_replaced_name_count() -> None:
    class Named:
        pass

    def inner(a: int = 1) -> None:
        pass

    def fn(x: Tensor) -> Any:
        return x + inspect.signature(inner).parameters["a"].default, str(Named)

    compiled = minicompile.compile(fn, backend="eager")
    torch.testing.assert_close(compiled(X)[0], X + 1)
    inner.__defaults__ = (5,)
    Named.__qualname__ = "Renamed"
    torch.testing.assert_close(compiled(X)[0], X + 5)
    assert compiled(X)[1] == str(Named)
