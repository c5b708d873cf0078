"""What programs seldom ask of objects: of classes, protocols, proxies, thread-locals, errors. One graph, and eager's
answers, whatever changes between the calls."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import abc
import collections.abc
import itertools
import threading
import types
import typing

import numpy as np
import pytest
import torch

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE = Programs()
whole = WHOLE.program


@whole(X)
def texts_of_errors(x):
    texts = []

    def inner():
        return later

    for read in (inner, lambda: x.shape if x is None else Abstract()):
        try:
            read()
        except (NameError, TypeError) as error:
            texts.append(str(error))
    try:
        unassigned, later
    except UnboundLocalError as error:
        texts.append(str(error))
    later = unassigned = 1
    for sized in ({"a": 1}, collections.OrderedDict(a=1), {1}):
        try:
            for key in sized:
                sized.add(2) if isinstance(sized, set) else sized.setdefault("b", 2)
        except RuntimeError as error:
            texts.append(str(error))
    return x + later, texts


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): ...


class Pair(typing.NamedTuple):
    a: int
    b: int


@whole(X)
def hash_of_a_named_tuple(x):
    return x * (hash(Pair(1, 2)) == hash(Pair(1, 2))), {Pair(1, 2): 3}[Pair(1, 2)]


@whole(X, np.array([1, 0]), np.int64(1))
def numpy_keys(x, places, place):
    y = x.clone()
    y[:, places] = 5
    y[place] = 7
    return x[places], x[:, places], x[place, 1:], y


@typing.runtime_checkable
class Stepping(typing.Protocol):
    size: int

    def step(self): ...


class Steps:
    def __init__(self):
        self.size = 2

    def step(self):
        return self.size


class StepsNoMore(Steps):
    step = None


@whole(X)
def protocols(x):
    found = [isinstance(o, Stepping) for o in (Steps(), StepsNoMore(), x, 3)]
    return x, found, isinstance(3, typing.SupportsInt), isinstance(x, typing.SupportsFloat), isinstance("a", typing.Sized)


@whole(X)
def abstract_classes_of_tensors(x):
    return x, isinstance(x, collections.abc.Hashable), isinstance(x, collections.abc.Sequence), isinstance(x, Abstract)


@whole(X)
def a_proxy_made_inside(x):
    behind = {"a": x}
    proxy = types.MappingProxyType(behind)
    behind["b"] = x + 1
    try:
        proxy["c"] = 1
    except TypeError as error:
        text = str(error)
    return proxy["b"], len(proxy), list(proxy), "a" in proxy, proxy.get("z", 5), text, dict(proxy.items())


@whole(X)
def notes_of_an_error(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        error.add_note("first")
        error.add_note("second")
        try:
            error.add_note(3)
        except TypeError as other:
            text = str(other)
        return x, error.__notes__, text


class Deletes:
    def __init__(self):
        self.gone, self.kept = 1, 2

    def __delattr__(self, name):
        self.last = name
        super().__delattr__(name)


@whole(X)
def deleting_above(x):
    o = Deletes()
    del o.gone
    object.__delattr__(o, "kept")
    return x, vars(o)


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, fullgraph=True)


class Root:
    k = 2


def attributes_of_a_class(x):
    names = [name for name in vars(Root) if not name.startswith("_")]
    return x * vars(Root)["k"], names, Root.__dict__.get("z", 0), [sub.k for sub in Root.__subclasses__()]


def test_attributes_and_subclasses_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = minicompile.compile(attributes_of_a_class, fullgraph=True)

    def check() -> None:
        assert_same(compiled(X), attributes_of_a_class(X))

    check()
    monkeypatch.setattr(Root, "k", 5)
    check()
    monkeypatch.setattr(Root, "z", 7, raising=False)
    check()
    derived = type("Derived", (Root,), {"k": 9})
    check()
    derived.k = 11
    check()


def shown(x, proxy, behind, key):
    behind[key] = 8
    return x * proxy["a"]


def test_what_a_proxy_shows_is_changed() -> None:
    compiled = minicompile.compile(shown)
    for key, is_behind in (("b", False), ("a", True), ("a", False), ("a", True)):
        results = []
        for call in (compiled, shown):
            mine, other = {"a": 2}, {"a": 3}
            results.append(call(X, types.MappingProxyType(mine), mine if is_behind else other, key))
        assert_same(*results)


def test_proxies_are_read_again() -> None:
    def fn(x):
        return x * proxy["a"] + len(proxy)

    behind = {"a": 1}
    proxy = types.MappingProxyType(behind)
    compiled = minicompile.compile(fn, fullgraph=True)
    for change in ({}, {"a": 2}, {"b": 3}):
        behind.update(change)
        assert_same(compiled(X), fn(X))


def test_attributes_of_a_thread() -> None:
    local = threading.local()
    local.k = 2

    def fn(x):
        local.n = getattr(local, "n", 0) + 1
        had = hasattr(local, "extra")
        if had:
            del local.extra
        return x * local.k, had, local.n, hasattr(local, "extra")

    compiled = minicompile.compile(fn, fullgraph=True)
    found: list[typing.Any] = []

    def elsewhere() -> None:
        local.k = 9
        found.append(compiled(X))

    assert_same(compiled(X), (X * 2, False, 1, False))
    local.extra = 1
    assert_same(compiled(X), (X * 2, True, 2, False))
    assert not hasattr(local, "extra")
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert_same(found[0], (X * 9, False, 1, False))
    del local.k
    with pytest.raises(AttributeError, match="'_thread._local' object has no attribute 'k'"):
        compiled(X)


def test_a_counter() -> None:
    compiled = minicompile.compile(lambda x, counter: (x * next(counter), next(counter)), fullgraph=True)
    for make in (lambda: itertools.count(1), lambda: itertools.count(5), lambda: itertools.count(3, -2)):
        mine, eagers = make(), make()
        for _ in range(2):
            assert_same(compiled(X, mine), (X * next(eagers), next(eagers)))
        assert next(mine) == next(eagers)
