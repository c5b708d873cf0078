"""What libraries of models do around their arithmetic: registries, signatures, names of classes, layers in slices."""

# ruff: noqa: E501, C416, SIM118 (the programs are what users write)

from __future__ import annotations

import functools
import inspect
import types
import warnings
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


def scale(x: Tensor, scale: float) -> Tensor:
    return (x * scale).relu()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    scripted = torch.jit.script(scale)
    TRACED = torch.jit.trace(lambda x: x + 1 if x.sum() > 0 else x - 1, (X,))


@program(X)
def scripted_functions(x: Tensor) -> Any:
    return scripted(x, 0.5), scripted(-x, scale=3.0)


@program(X)
def assertions_of_torch(x: Tensor) -> Any:
    torch._assert(x.shape[0] == 2, "never seen")
    torch._assert([1], "never seen")
    try:
        torch._assert(x.shape[-1] == 5, f"four, not {x.shape[-1] + 1}")
    except AssertionError as error:
        return x + 1, str(error), torch.compiler.is_exporting()


@program(X)
def attention_that_asks_for_modes(x: Tensor) -> Any:
    layer = nn.functional.multi_head_attention_forward
    return layer(x[:, None], x[:, None], x[:, None], 4, 2, torch.ones(12, 4), None, None, None, False, 0.0, torch.eye(4), None)[0]


WORDS = ["full", "sliding", "chunked", "linear", "full", "local", "global", "none", "sliding"]


@program(X)
def sets_iterate_as_in_eager(x: Tensor) -> Any:
    kinds = set(WORDS)
    table = {kind: x + len(kind) for kind in kinds}
    grown = set()  # noqa: C408
    for word in WORDS:
        grown.add(word)
    fewer = kinds - {"full"}
    more = {*WORDS[:3]} | {"z", "q"}
    kinds.discard("none")
    kinds.update(["a", "b", "c"], {"d": 1, "e": 2}, {"f", "g"})
    popped = grown.pop()
    copied = kinds.copy()
    kinds &= {"a", "b", "full", "local", "d", "f"}
    numbers = set([16, 0, 1, 2, 3, 33])
    both = numbers | {64, 32}
    numbers -= {2}
    numbers.add(48)
    return list(table), table, list(grown), list(fewer), list(more), list(copied), list(kinds), popped, list(numbers), [*both], list(frozenset(WORDS)), list({"p", "q", "r", "s"}), list(set(dict.fromkeys(WORDS))), sorted(set(WORDS)), list(set("abcab")), list(set(frozenset(WORDS))), list({1, 2} ^ {2, 16, 32})


@program(X, {16, 0, 1, 2, 3}, frozenset(WORDS))
def sets_from_outside_iterate_as_in_eager(x: Tensor, s: Any, names: Any) -> Any:
    return list(s), list(names), [x + n for n in s], list(s | {5}), list(s.copy()), {n: len(n) for n in names}


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


SET_BREAKS = Programs()


@SET_BREAKS.program(X, {16, 0, 1, 2, 3}, set(WORDS))
def changed_sets_from_outside(x: Tensor, s: Any, names: Any) -> Any:
    s.add(48)
    names.discard("full")
    return list(s), list(names), x + 1, s.pop(), names


@SET_BREAKS.program(X)
def orders_that_only_cpython_knows(x: Tensor) -> Any:
    keys = {word: 1 for word in WORDS}.keys()
    objects = {nn.ReLU(), nn.GELU()}
    total = x
    for key in keys & {"full", "local", "none"}:
        total = total + len(key)
    for number in {1, 2, 16, 32}.difference([2], {16}):
        total = total * number
    return total, len([m(x) for m in objects]), sorted({1, 16, 32}.intersection([32, 16]))


@SET_BREAKS.program(X)
def traced_function(x: Tensor) -> Any:
    return TRACED(x), TRACED(-x)


@pytest.mark.parametrize("name", SET_BREAKS)
def test_with_breaks_like_eager(name: str) -> None:
    fn, args = SET_BREAKS[name]
    assert_like_eager(fn, args, eager=True)


def test_the_order_of_a_set_from_outside_is_guarded() -> None:
    def fn(x: Tensor, s: Any) -> Any:
        return [x + n for n in s]

    compiled = minicompile.compile(fn, backend="eager", dynamic=False)
    for s in ({0, 16}, {16, 0}, {0, 16}, {16, 32, 0}):
        for one, other in zip(compiled(X, s), fn(X, s), strict=True):
            torch.testing.assert_close(one, other)


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
