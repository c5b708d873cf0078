"""Programs that ask who an object is, and which names there are: one graph each, and eager's results."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import inspect
import weakref
from typing import Any

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


class Plain:
    def __init__(self, k: int) -> None:
        self.k = k

    def doubled(self):
        return self.k * 2


class Slotted:
    __slots__ = ("k",)


FIRST, SECOND = Plain(2), Plain(3)


@whole(X, X + 1)
def ids_as_keys(x, z):
    y = x + 1
    memo = {id(x): x, id(y): y}
    return memo[id(y)] * 2, len(memo), id(z) in memo, id(y.contiguous()) == id(y), {id(x), id(z)} == {id(z), id(x)}


@whole(X, [X, X + 1])
def what_was_seen_is_left_out(x, tensors):
    out, seen = [], set()
    for t in [*tensors, tensors[0], x]:
        if id(t) not in seen:
            seen.add(id(t))
            out.append(t * 2)
    return out


@whole(X)
def a_walk_with_a_memo(x):
    memo = {}

    def walk(o):
        if id(o) not in memo:
            memo[id(o)] = [walk(part) for part in o] if isinstance(o, list) else o * 2
        return memo[id(o)]

    a = [x]
    r = walk([a, a, x])
    return r, r[0] is r[1], id(a) == id(r)


@whole(X)
def weak_references(x):
    w = weakref.ref(FIRST)
    return x * w().k, w() is FIRST, w() is not None, bool(w)


@whole(X)
def globals_as_a_dict(x):
    names = globals()
    names["MADE"] = names["FIRST"].k + 5
    return x * MADE, "nope" in names, names.get("SECOND").k, names.get("nope", 7), names["MADE"]


@whole(X)
def a_global_that_is_not_there(x):
    try:
        globals()["nope"]
    except KeyError as error:
        return x + 1, str(error)


@whole(X)
def names_of_an_object(x):
    made = Plain(2)
    made.more = 1
    return x + len([n for n in dir(FIRST) if not n.startswith("_")]), dir(made), dir(Plain), dir(Slotted())


def _bound(a, /, b=2, *rest, c=FIRST, **more):
    return a * b


SIGNATURE = inspect.signature(_bound)


@whole(X)
def arguments_bound_by_a_signature(x):
    bound = inspect.signature(_bound).bind(x, 5, 6, c=7, z=8)
    before = dict(bound.arguments)
    bound.arguments["b"] += 1
    return bound.args, bound.kwargs, before, _bound(*bound.args, **bound.kwargs)


@whole(X)
def defaults_applied(x):
    bound = SIGNATURE.bind_partial(x)
    names = list(bound.arguments)
    bound.apply_defaults()
    return x * 2, names, list(bound.arguments), bound.arguments["c"].k, bound.args, list(bound.kwargs), bound.arguments["more"]


@whole(X)
def arguments_that_do_not_fit(x):
    errors = []
    for args, kwargs in (((), {}), ((x,), {"a": 1}), ((x, 1), {"b": 2})):
        try:
            SIGNATURE.bind(*args, **kwargs)
        except TypeError as error:
            errors.append(str(error))
    return x * 2, errors


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, graphs=1, fullgraph=True)


def test_ids_that_leave_are_those_of_the_objects() -> None:
    def function(x: Any, o: Any) -> Any:
        y = x + 1
        return y, {id(o): 1}, (id(y), id(x)), weakref.ref(o)

    compiled = minicompile.compile(function, fullgraph=True)
    for o in (FIRST, SECOND, Plain(4)):
        y, owned, ids, reference = compiled(X, o)
        assert (owned, ids, reference()) == ({id(o): 1}, (id(y), id(X)), o)
    assert len(compiled.entries) == 1


def test_an_id_among_those_of_the_program_is_looked_for_anew() -> None:
    known = {id(SECOND): 3}

    def function(x: Any, o: Any) -> Any:
        return x * known[id(o)] if id(o) in known else x - 1

    compiled = minicompile.compile(function)
    for o in (FIRST, SECOND, FIRST):
        assert_same(compiled(X, o), function(X, o))


def test_one_object_under_two_names_is_seen() -> None:
    def function(x: Any, one: Any, other: Any) -> Any:
        return x * len({id(one), id(other)}), id(one) == id(other)

    compiled = minicompile.compile(function, fullgraph=True)
    for args in ((X, FIRST, SECOND), (X, FIRST, FIRST), (X, SECOND, FIRST)):
        assert_same(compiled(*args), function(*args))


def test_bound_arguments_outlive_the_frame() -> None:
    compiled = minicompile.compile(lambda x: inspect.signature(_bound).bind(x, 3, c=1), backend="eager")
    bound = compiled(X)
    assert bound.signature == SIGNATURE and bound.args == (X, 3) and bound.kwargs == {"c": 1}


def test_new_names_are_seen() -> None:
    class Growing:
        pass

    def function(x: Any, o: Any) -> Any:
        return x * len([n for n in dir(o) if n.startswith("n")]), "later" in globals()

    compiled, o = minicompile.compile(function, fullgraph=True), Growing()
    for change in (lambda: None, lambda: setattr(o, "n1", 1), lambda: setattr(Growing, "n2", 1)):
        change()
        assert_same(compiled(X, o), function(X, o))
    globals()["later"] = 1
    try:
        assert_same(compiled(X, o), function(X, o))
    finally:
        del globals()["later"]
