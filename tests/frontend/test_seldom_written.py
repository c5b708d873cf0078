"""Programs of kinds that are seldom written: each was once another result than eager's, or a break where none is due."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import operator
import weakref

import pytest
import torch

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE, BROKEN = Programs(), Programs()
whole, broken = WHOLE.program, BROKEN.program


@whole(X)
def a_base_class_is_written(x):
    Base.count = 0
    Base.count += 10
    Base.late = x * 2
    Base.scaled = lambda self, x: x * self.count
    return x * Derived.count, hasattr(Derived, "late"), Derived.late + Derived().late, Derived().scaled(x)


class Base:
    count = 0

    def named(self, x):
        return x


class Derived(Base):
    def named(self, x):
        return super().named(x) + 1


@whole(X)
def a_class_between_hides_what_its_base_is_given(x):
    Base.kind = 2
    Derived.kind = 3
    return x * Derived.kind + Base.kind


@broken(X)
def super_finds_what_a_base_is_given(x):
    Base.named = lambda self, x: x * 3
    return Derived().named(x)


@whole(X)
def partials_of_partials(x):
    inner = functools.partial(torch.add, x, alpha=2)
    outer = functools.partial(inner, x + 1)
    return outer(), outer(alpha=3), outer.args, outer.keywords, outer.func is torch.add


class Countdown:
    """Its own iterator, without `__contains__`."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


@whole(X)
def membership_asks_an_iterator(x):
    steps = Countdown(5)
    return x, 2 in steps, steps.n, 7 in steps, steps.n


class Number:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


class Rounded(Number):
    def __int__(self):
        return self.n + 1

    def __float__(self):
        return self.n / 2


@whole(X, [1, 2, 3])
def objects_that_are_an_index(x, items):
    one, two = Number(1), Rounded(2)
    items[one] = 5
    del items[two]
    parts = items[one], (1, 2, 3)[:two], list(range(one, 5, two)), [0] * two, two * (7,)
    return x * operator.index(two), parts, items, int(one), int(two), float(one), float(two), complex(two)


@whole(X)
def a_reversed_tensor_is_a_tensor(x):
    return reversed(x)


@whole(X)
def texts_of_errors_that_tracing_meets(x):
    def text_of(risky):
        try:
            risky()
        except (AttributeError, ValueError, TypeError) as error:
            return str(error), error.args

    def unpacked(items, starred):
        if starred:
            a, b, *c = items
        else:
            a, b = items

    made, wanted = Base(), "missing"
    texts = [text_of(lambda: getattr(owner, wanted)) for owner in (made, x, [], MODULE)]
    return x, texts, [text_of(lambda: unpacked(items, starred)) for items, starred in ODD]


MODULE = torch.nn.ReLU()
ODD = (("a", 0), ("abc", 0), ("a", 1), (5, 0), (None, 1))


@broken(X)
def a_missing_attribute_has_a_name(x):
    try:
        x.missing
    except AttributeError as error:
        return x + 1, getattr(error, "name", None), error.obj is x


@whole(X)
def classes_made_by_calling_type(x):
    made = type("Made", (Base,), {"k": 2, "scaled": lambda self, x: x * self.k})
    return made().scaled(x), made.__name__, made.__module__, made.__qualname__, isinstance(made(), Base)


@whole(X)
def what_inspect_says(x):
    def gen():
        yield x

    kinds = inspect.isfunction(gen), inspect.isgeneratorfunction(gen), inspect.ismethod(Base().named)
    return x, kinds, inspect.isclass(Base), inspect.isbuiltin(len), inspect.getmro(Derived)[1] is Base


@whole(X, [3, 4])
def functions_of_operator(x, items):
    operator.delitem(items, 0)
    more = operator.iconcat(items, [x])
    seen = operator.contains(more, 4), operator.countOf((x, x), x), operator.indexOf([x, 5], x), more is items
    return operator.pos(x), operator.inv(2), operator.is_not(x, None), operator.concat([x], [1]), seen


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, fullgraph=True)


@pytest.mark.parametrize("name", BROKEN)
def test_breaks_like_eager(name: str) -> None:
    fn, args = BROKEN[name]
    assert_like_eager(fn, args)


def test_what_a_call_that_breaks_was_given_dies_with_it() -> None:
    def noted(log):
        log.append(1)
        print(len(log))

    def fn(log, held):
        noted(log)
        return held.x + 1

    class Held:
        x = X

    gc.disable()
    try:
        held = Held()
        known, _ = weakref.ref(held), minicompile.compile(fn)([], held)
        del held
        assert known() is None
    finally:
        gc.enable()


def test_elements_of_an_iterator_from_outside() -> None:
    def fn(x, numbers, pairs):
        first = next(numbers)
        parts = [x * number for number in itertools.islice(numbers, 2)]
        for key in pairs:
            if key == "b":
                break
        return parts, first, next(numbers, "none"), key, next(pairs, "end")

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for count in (9, 9, 4, 3, 5):
        results = []
        for call in (compiled, fn):
            numbers, pairs = iter(range(count)), iter(["a", "b", "c"][:count - 2])
            results.append((call(X, numbers, pairs), list(numbers), list(pairs)))
        assert_same(*results)
    assert len(compiled.entries) == 3


def keywords_twice(x, given):
    return taken(x, k=1, **given)


def no_mapping_for_keywords(x, given):
    return Base().named(x, **given["k"])


def no_mapping_in_a_display(x, given):
    return x, {"a": 1, **given["k"]}


def pairs_in_a_display(x, given):
    return x, {**[("a", 1)]}


def taken(x, **options):
    return x * len(options)


@pytest.mark.parametrize("fn", [keywords_twice, no_mapping_for_keywords, no_mapping_in_a_display, pairs_in_a_display])
def test_errors_of_unpacking(fn) -> None:
    outcomes = []
    for call in (fn, minicompile.compile(fn, backend="eager")):
        with pytest.raises(TypeError) as caught:
            call(X, {"k": 5})
        outcomes.append(str(caught.value))
    assert outcomes[0] == outcomes[1]
