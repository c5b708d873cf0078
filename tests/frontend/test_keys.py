"""Keys with a hash of their own, iterators that share, and library functions that wrap the program's."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from typing import Any

import pytest
import torch

import minicompile

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
WHOLE, BROKEN = Programs(), Programs()


class Key:
    def __init__(self, k):
        self.k = k

    def __hash__(self):
        return hash(self.k)

    def __eq__(self, other):
        return isinstance(other, Key) and self.k == other.k


class Plain(Key):
    def __hash__(self):
        return self.k


class Counted(Key):
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = Key.__hash__


class NoHash:
    def __eq__(self, other):
        return True


class BadHash:
    def __hash__(self):
        raise ValueError("no hash")


@dataclasses.dataclass(frozen=True)
class Point:
    a: int
    b: int = 2


@dataclasses.dataclass
class Record:
    a: int
    b: list = dataclasses.field(default_factory=list)


@functools.singledispatch
def kind(value):
    return "object"


@kind.register
def _(value: int):
    return value + 1


@kind.register(torch.Tensor)
def _(value):
    return value + 2


class Kinds:
    @functools.singledispatchmethod
    def of(self, value):
        return "object"

    @of.register
    def _(self, value: int):
        return value + 1


@WHOLE.program(X)
def keys(x):
    d = {Key(1): x, Key(2): x + 1}
    d[Key(1)] = x * 3
    return d[Key(2)] + d[Key(1)], Key(3) in d, len({Key(1), Key(1)}), len(d), d.get(Key(9)), list(d.values()), d.pop(Key(2))


@WHOLE.program(X)
def a_key_that_changes(x):
    k = Key(1)
    d = {k: 1}
    k.k = 2
    return k in d, Key(1) in d, Key(2) in d, [q is k for q in d], x


@WHOLE.program(X)
def memo(x):
    cache = {}

    def f(o):
        if o not in cache:
            cache[o] = x * o.k
        return cache[o]

    return f(Key(1)) + f(Key(1)) + f(Key(2)), len(cache)


@WHOLE.program(X)
def hashes(x):
    return hash(3) * x, hash((1, 2.5)), hash(Point(1)) == hash(Point(1)), hash(Key(4)), {Point(1): x}[Point(1)] + 1, {(1, Key(2)): 3}[1, Key(2)], hash(True)


@WHOLE.program(X)
def without_a_hash(x):
    found = []
    for o in (NoHash(), BadHash(), [1], {}):
        try:
            {o: 1}
        except (TypeError, ValueError) as e:
            found.append((type(e).__name__, str(e)))
    return found, x


@WHOLE.program(X)
def tees(x):
    a, b = itertools.tee(iter([x, x + 1, x + 2]))
    c, d = itertools.tee(b)
    return next(a), next(c), list(a), list(d), list(c), list(itertools.tee([1], 3)[2])


@WHOLE.program(X)
def tee_of_a_generator(x):
    log = []

    def g():
        for i in range(3):
            log.append(i)
            yield i

    a, b = itertools.tee(g())
    next(b)
    return [(p, q) for p, q in zip(a, b)], log, x


@WHOLE.program(X)
def dispatched(x):
    return kind(x), kind(3), kind("a"), kind(True), Kinds().of(3) * x, Kinds().of("s")


CLASSES = frozenset({int, Key, type(None)})


@WHOLE.program(X)
def sets_of_classes(x):
    return x, int in CLASSES, type(Key(1)) in CLASSES, str in CLASSES, type(x) in CLASSES, len(CLASSES), CLASSES is CLASSES


@WHOLE.program(X)
def texts_of_dataclasses(x):
    return repr(Record(1, [Point(2)])), str(Point(2)), f"{Point(3)}", dataclasses.asdict(Record(1)), dataclasses.astuple(Point(1)), x + 1


@BROKEN.program(X)
def comparisons_are_counted(x):
    Counted.compared = 0
    d = {Counted(1): 1}
    d[Counted(1)] = 2
    return Counted.compared, d[Counted(1)], Counted.compared, x + 1


@BROKEN.program(X)
def a_tee_goes_over_a_break(x):
    a, b = itertools.tee([1, 2, 3])
    next(a)
    print("between")
    return list(a), list(b), x


@BROKEN.program(X)
def an_object_that_holds_itself(x):
    r = Record(1)
    r.b.append(r)
    return repr(r), x + 1


@dataclasses.dataclass(frozen=True)
class Pair:
    t: torch.Tensor
    n: int = 3


OUTSIDE = Pair(X)


@WHOLE.program(X)
def objects_that_hold_tensors(x):
    pair = OUTSIDE
    inside = Pair(x, 4)
    found = {inside: x * 2, pair: x * 3, Pair(x, 5): 1}
    return found[inside] + found[OUTSIDE], pair in {OUTSIDE}, inside in {pair}, len(found), Pair(x, 4) in found


@BROKEN.program(X)
def hashes_with_addresses(x):
    return x + 1, hash(OUTSIDE) == hash(Pair(OUTSIDE.t))


class Runs:
    def run(self, x, k=1, *, plus=0):
        return x * k + plus

    thrice = functools.partialmethod(run, k=3)
    later = functools.partialmethod(run, plus=2)
    swapped = functools.partialmethod(lambda self, y, x: (x * 2, y), 4)


class Net(torch.nn.Module):
    def _run(self, x, k):
        return x * k

    twice = functools.partialmethod(_run, k=2)

    def forward(self, x):
        return self.twice(x)


NET, RUNS = Net(), Runs()


@WHOLE.program(X)
def partial_methods(x):
    made = Runs()
    return RUNS.thrice(x), made.later(x, 2), Runs.thrice(RUNS, x, plus=1), made.swapped(x), NET(x)


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, fullgraph=True)


@pytest.mark.parametrize("name", BROKEN)
def test_with_breaks(name: str) -> None:
    fn, args = BROKEN[name]
    assert_like_eager(fn, args, eager=True)


def test_keys_that_leave_the_frame_are_whole() -> None:
    """A key is filled before its hash is taken, and the objects are the ones that the program has."""

    def f(x: Any) -> Any:
        k = Key(1)
        return {k: x}, {Key(2)}, [k], {(Key(3), 1): k}

    table, keys, (k,), nested = minicompile.compile(f, backend="eager", fullgraph=True)(X)
    assert table[Key(1)] is X and list(table)[0] is k and Key(2) in keys and nested[Key(3), 1] is k


def test_keys_from_outside() -> None:
    def f(d: Any, k: Any) -> Any:
        d[Key(1)] = d[k] * 2
        d[Key(5)] = 1
        return d[Key(1)], k in d, [q.k for q in d]

    compiled = minicompile.compile(f, backend="eager", fullgraph=True)
    for name in ("a", "a", "b"):
        mine, theirs = {Key(1): X, Key(name): X + 1}, {Key(1): X, Key(name): X + 1}
        result, expected = compiled(mine, Key(name)), f(theirs, Key(name))
        torch.testing.assert_close(result[0], expected[0])
        assert result[1:] == expected[1:] and [k.k for k in mine] == [k.k for k in theirs]


def test_a_function_that_is_registered_later_is_seen() -> None:
    @functools.singledispatch
    def f(value: Any) -> Any:
        return value * 0 if isinstance(value, torch.Tensor) else 0

    compiled = minicompile.compile(lambda x: f(x), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), X * 0)
    f.register(torch.Tensor, lambda value: value + 1)
    torch.testing.assert_close(compiled(X), X + 1)


@pytest.mark.parametrize("number", [-1, 2**61, 2**61 - 1, -(2**61), sys.maxsize, -sys.maxsize - 1, sys.maxsize + 1, 2**70])
def test_a_hash_is_the_number_that_the_class_gives(number: int) -> None:
    """A machine's number as it is, a longer one shortened; the hash of a hash would be a third number."""
    compiled = minicompile.compile(lambda x, k: (x * 2, hash(k), k in {Key(1): 0}), backend="eager", fullgraph=True)
    compiled(X, Plain(0))
    assert compiled(X, Plain(number))[1:] == (hash(Plain(number)), False)


def test_a_hash_of_an_open_number() -> None:
    def f(x: Any, n: int) -> Any:
        return x * n, hash(Point(n)) == hash(Point(n)), {Point(n): x}[Point(n)], hash(Point(n))

    compiled = minicompile.compile(f, backend="eager", fullgraph=True)
    for n in range(3):
        assert compiled(X, n)[1::2] == (True, hash(Point(n)))
