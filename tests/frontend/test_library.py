"""Builtins, text, containers and the standard library, as programs use them: one graph, as in eager."""

# ruff: noqa: E501, UP028, UP033, UP031, UP032, B007, B905, C408, C416, C417, E731, PERF401, RUF005, RUF015, UP018, B023 (the programs are what users write)

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import math
import operator
import random
import string
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest
import torch
from torch import Tensor

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


# ---- laziness and the order of effects ----


def noted(log: list[Any], value: Any) -> Any:
    log.append(value)
    return value


@program(X, [])
def lazy_builtins(x: Tensor, log: list[Any]) -> Any:
    for i in map(lambda k: noted(log, k), [1, 2]):
        log.append(-i)
    for i, j in zip((noted(log, k) for k in "ab"), (noted(log, k) for k in "cde")):
        log.append(i + j)
    for i, k in enumerate((noted(log, v) for v in (5, 6)), start=3):
        log.append((i, k))
    for k in filter(lambda k: noted(log, k) % 2, [1, 2, 3]):
        log.append("odd")
    m = map(lambda k: noted(log, k), [7, 8, 9])
    first = next(m)
    return x, first, any(noted(log, k) for k in (0, 1, 2)), all(noted(log, k) for k in (1, 0, 3)), 1 in (noted(log, k) for k in (0, 1, 2)), sum(noted(log, k) for k in (1, 2))


@program(X, [])
def exhausted_and_shared_iterators(x: Tensor, log: list[Any]) -> Any:
    it = iter([1, 2, 3, 4, 5])
    pairs = list(zip(it, it))
    gen = (noted(log, k) for k in range(5))
    taken = [next(gen), next(gen)]
    a, b, *c = gen
    return x, pairs, list(it), taken, a, b, c, list(gen), dict(zip("ab", [x, x + 1])), [*reversed([1, 2])], list(zip(*[(1, 2), (3, 4)]))


@program(X, [])
def left_generators_are_closed(x: Tensor, log: list[Any]) -> Any:
    def numbers() -> Any:
        for i in range(5):
            yield i
        log.append("end")

    for n in numbers():
        if n == 2:
            break
    first, second = itertools.islice(numbers(), 2)
    return x * n, first, second, next(numbers())


@program(X)
def two_argument_iter_and_min_max(x: Tensor) -> Any:
    return (
        x, max([3, 1], key=lambda k: -k), min("b", "a"), max([], default=7), min((k for k in (3, 2)), default=0), max({1: 2, 5: 0}), sorted([(1, "b"), (0, "c")], key=lambda p: p[1]),
        sorted({"b": 1, "a": 2}.items()), sorted("hello", reverse=True), sum([[1], [2]], []), max((1, 2), (1, 3)), min(2.5, 1), sorted([3, 1, 2], key=lambda k: (k % 2, k)),
    )  # fmt: skip


@program(X)
def stable_sorts(x: Tensor) -> Any:
    items = [("a", 2), ("b", 1), ("c", 2)]
    items.sort(key=operator.itemgetter(1), reverse=True)
    tensors = sorted([(2, x), (1, x + 1)], key=lambda p: p[0])
    return items, tensors, sorted([True, 0.5, 2])


# ---- itertools, functools, operator, math ----


@program(X)
def itertools_of_all_kinds(x: Tensor) -> Any:
    return (
        [x * k for k in itertools.chain([1], (2, 3))], list(itertools.chain.from_iterable([[1], [2]])), list(itertools.product("ab", [1, 2])), list(itertools.product([0, 1], repeat=2)),
        list(itertools.permutations([1, 2, 3], 2)), list(itertools.combinations("abc", 2)), list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.islice(itertools.count(3), 2)), list(itertools.repeat(x, 2)), list(itertools.zip_longest([1, 2], "a", fillvalue=None)), list(itertools.starmap(pow, [(2, 3)])),
        list(itertools.takewhile(lambda k: k < 3, [1, 2, 5, 1])), list(itertools.dropwhile(lambda k: k < 3, [1, 5, 1])), list(itertools.compress("abc", [1, 0, 1])),
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])], list(itertools.pairwise([1, 2, 3])), list(itertools.filterfalse(None, [0, 1])), list(itertools.islice([1, 2, 3, 4], 1, None, 2)),
        [c for c, _ in zip(itertools.cycle("ab"), range(3))], list(itertools.combinations_with_replacement([1, 2], 2)),
    )  # fmt: skip


@functools.lru_cache
def cached(k: int) -> int:
    return k * 2


@functools.cache
def fibonacci(k: int) -> int:
    return k if k < 2 else fibonacci(k - 1) + fibonacci(k - 2)


@program(X)
def functools_of_all_kinds(x: Tensor) -> Any:
    @functools.lru_cache(maxsize=None)
    def inner(k: int) -> int:
        return k + 1

    @functools.wraps(cached)
    def wrapped(k: int) -> int:
        return k

    add = functools.partial(torch.add, x, alpha=2)
    return add(x), cached(3), fibonacci(7), inner(1), wrapped.__name__, functools.reduce(lambda a, b: a * b, [1, 2, 3]), add.keywords, add.func is torch.add, functools.cmp_to_key(lambda a, b: b - a)(1) < functools.cmp_to_key(lambda a, b: b - a)(2), sorted([1, 3, 2], key=functools.cmp_to_key(lambda a, b: b - a))


@program(X)
def operator_functions(x: Tensor) -> Any:
    d = {"a": 1}
    operator.setitem(d, "b", 2)
    items = [3, 1]
    operator.iadd(items, [4])
    return (
        operator.add(x, 1), operator.itemgetter(1, 0)([1, 2]), operator.attrgetter("shape")(x), operator.methodcaller("sum", 0)(x), operator.contains([1], 1), operator.index(3), d, items,
        operator.getitem(x, 0), operator.not_(0), operator.is_(None, None), operator.concat([1], [2]), operator.truth([]), operator.countOf([1, 1], 1), operator.neg(x), operator.matmul(x, x.T), operator.mod(7, 3),
    )  # fmt: skip


@program(X, 5)
def math_functions(x: Tensor, n: int) -> Any:
    return x * math.sqrt(n), math.floor(2.7), math.pi, math.inf, math.prod([2, 3]), math.gcd(12, 18), math.isclose(0.1 + 0.2, 0.3), math.log2(8), math.isnan(math.nan), math.ceil(n / 2), math.comb(5, 2), round(2.567, 1), divmod(n, 3), abs(-n), pow(n, 2, 7), n.bit_length(), (2.5).is_integer(), int("0x1f", 16), bin(n), hex(255), float("inf") > 1, complex(1, 2).real, 7 // -2, -7 % 3, 1e3, n & 3 | 8 ^ 1, ~n, n << 2, True + 1


# ---- containers ----


@program(X, deque([1, 2, 3], maxlen=4))
def deques(x: Tensor, given: deque[Any]) -> Any:
    d: deque[Any] = deque([x])
    d.append(x + 1)
    d.appendleft(0)
    d.extend([5, 6])
    d.extendleft([7, 8])
    last, first = d.pop(), d.popleft()
    d.rotate(1)
    given.append(9)
    given.append(10)
    given.rotate(-1)
    e = deque([1, 2, 1], maxlen=3)
    e.append(4)
    e.remove(1)
    return len(d), last, first, d[0], list(d), given, e, e.maxlen, 4 in e, e.count(4), list(reversed(e)), bool(deque()), e.index(4), e.copy() == e, [k for k in e]


@program(X, OrderedDict(a=1, b=2), defaultdict(list, k=[1]))
def kinds_of_dicts(x: Tensor, ordered: OrderedDict[str, Any], lists: defaultdict[str, Any]) -> Any:
    ordered["c"] = x
    ordered.move_to_end("a")
    first = ordered.popitem(last=False)
    lists["new"].append(2)
    lists["k"].append(x.shape[0])
    numbers: defaultdict[str, int] = defaultdict(int)
    for c in "abca":
        numbers[c] += 1
    nested: Any = defaultdict(lambda: defaultdict(int))
    nested["a"]["b"] += 1
    return first, list(ordered), dict(numbers), nested["a"]["b"], lists.get("zz"), "zz" in lists, numbers.default_factory is int, list(reversed(ordered)), OrderedDict([("a", 1)]) == {"a": 1}


@program(X)
def order_counts_between_ordered_dicts_only(x: Tensor) -> Any:
    one, other = OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)
    return one == other, one != other, one == dict(other), dict(one) == other, one == OrderedDict(one), x + 1


@program(X)
def dict_methods(x: Tensor) -> Any:
    d: dict[Any, Any] = {"a": x, 2: "b", (1, 2): 3, None: 4, 2.5: 5}
    e = dict.fromkeys("ab", 0)
    e.update({"c": 1}, d=2)
    e.update([("e", 3)])
    popped = e.pop("a"), e.pop("zz", None), e.popitem()
    view = e.keys()
    e["late"] = 1
    f = {**e, "x": 1} | {"y": 2}
    e.clear()
    return d, popped, list(view), f, e, {k: v for k, v in zip("ab", (1, 2))}, {"b", "c"} & f.keys(), f.keys() - {"b"}, list({1: 2}.items())[0], dict(a=1) == {"a": 1}, {"a": [x]}["a"][0], len(f), next(iter(d)), list(reversed({"p": 1, "q": 2})), {1: 1} | {1: 2}


@program(X)
def list_methods(x: Tensor) -> Any:
    a: list[Any] = [3, 1, 2]
    a.sort()
    a.reverse()
    a.extend(range(2))
    a.insert(1, "i")
    a[1:3] = [7, 8, 9]
    del a[-1]
    a[::2] = [0] * len(a[::2])
    b = a.copy()
    b *= 2
    b += (1,)
    b.remove(0)
    nested = [[0] * 2 for _ in range(2)]
    nested[0][1] = x
    c = [1, 2] + [3]
    c.clear()
    return a, b, b.count(0), b.index(b[2]), nested, c, [1, 2] < [1, 3], [x, 1][1:], [[1, 2], [3]][0][::-1], 3 in a, [*a, *b][:2], a == b, [None] * 2, list("ab"), a.pop(0), [1, [2]] == [1, [2]]


@program(X)
def set_methods(x: Tensor) -> Any:
    s = {1, 2, 3}
    s.update([4], (5,))
    s.discard(9)
    s.remove(1)
    s -= {2}
    t = s.copy()
    t.clear()
    s |= {7}
    popped = {3}.pop()
    return x * len(s), sorted(s), t, s.issubset({3, 4, 5, 7, 8}), s.isdisjoint({9}), s.union([1]), s.intersection({3, 9}), s.difference([3]), s.symmetric_difference({3, 99}), s >= {3}, popped, frozenset("a") | {"b"}, {1} != {2}, s.issuperset([3]), sorted(s & {4, 5}), len({x, x})


@program(X, [3, 1, 2])
def bisect_and_heapq(x: Tensor, heap: list[int]) -> Any:
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return x, heapq.heappop(heap), heap, bisect.bisect_left([1, 3, 5], 3), heapq.nlargest(2, [1, 5, 3])


class Task:
    def __init__(self, order: int, value: Any) -> None:
        self.order, self.value = order, value

    def __lt__(self, other: Any) -> bool:
        return self.order < other.order


@program(X, [(4, 0)])
def heaps_of_pairs_and_objects(x: Tensor, heap: list[Any]) -> Any:
    for i in range(6):
        heapq.heappush(heap, (i * 7 % 6, i, x * i))
    taken = heapq.heappop(heap), heapq.heappushpop(heap, (2, 9, x)), heapq.heapreplace(heap, (0, -1, x))
    pairs = [(v, x + v) for v in (5, 3, 8, 1, 9, 2)]
    heapq.heapify(pairs)
    tasks: list[Any] = []
    for i in (3, 1, 2):
        heapq.heappush(tasks, Task(i, x * i))
    return taken, heap, pairs, [heapq.heappop(tasks).value for _ in range(3)], heapq.heappushpop([], x)


# ---- text ----


@program(X, 3, "name", 2.5)
def strings(x: Tensor, n: int, s: str, f: float) -> Any:
    return (
        f"{s:>10}|{n:04d}|{f:.3e}|{n!r:>3}|{s[0].upper()}{s[1:]}", f"{f=}", f"{n + 1:{n}d}", "%s-%05.1f" % (s, f), "{0}{a}{1!r}".format(n, s, a=f), s.replace("n", "m"), s.split("a"), " x ".strip(), s.find("m"),
        s.startswith(("n", "q")), s.title(), s.center(9, "*"), ",".join([s, "b"]), s.encode(), b"ab".decode(), s * 2, s[::-1], "a" in s, s < "z", s.partition("a"), "a,b,,c".split(",", 2), s.isalpha(), "x=1;y=2".replace(";", "&"),
        "\n".join(f"{i}: {c}" for i, c in enumerate(s)), str(n), repr(s), str(x.dtype), f"{x.shape}", f"{tuple(x.shape)}", str([1, "a", (2,)]), "{:,}".format(1234567), s.zfill(6), ord("a"), chr(98), s.count("a"), str(None), string.digits, len(s), s.casefold(), "abc".translate({97: "z"}), f"{'nested'!s:>{n + 7}}", "a\tb".expandtabs(4), s.rsplit("a", 1), "é".encode().hex(),
    )  # fmt: skip


@program(X, {"a": 1, "b": [2, 3]})
def texts_of_containers(x: Tensor, d: dict[str, Any]) -> Any:
    return f"{d}", str(d), repr([d["a"], (None, True)]), f"{d['b'][0]:>3}", f"{x.device} {x.requires_grad} {len(d)}", f"{x.ndim}D", f"{torch.float32}"


@program(X, 1, 2)
def chained_and_conditional(x: Tensor, a: int, b: int) -> Any:
    c = (n := a + b) * n
    return 0 < a < b <= 2 != 3, a if b else c, a and b or c, not a, (a, b) == (1, 2), [y for v in (1, 2, 3) if (y := v * 2) > 2], None is not a, a != b, a is b, x if a < b else None, c


@program(X)
def unpacking_of_all_kinds(x: Tensor) -> Any:
    (a, *b), c = [1, 2, 3], "z"
    d, (e, f), *g = 1, (2, 3), 4, 5
    for i, (j, k) in [(1, (2, 3))]:
        pass
    first, *_, last = range(5)
    [m, n] = {"k": 1, "l": 2}
    o, p = x
    q = r = [1]
    return a, b, c, d, e, f, g, i, j, k, first, last, m, n, o, p, q is r, (*b, *"ab"), {**{"a": 1}, "b": 2}, [*range(3)], max(*[1, 2])


@program(X)
def functions_of_all_kinds(x: Tensor) -> Any:
    def default(a: Any, items: list[Any] = []) -> Any:  # noqa: B006
        items.append(a)
        return len(items)

    def outer() -> Any:
        count = 0

        def bump() -> int:
            nonlocal count
            count += 1
            return count

        def read() -> int:
            return count

        return bump, read

    def varied(a: int, /, b: int = 2, *args: int, c: int, d: int = 4, **kw: int) -> Any:
        return a, b, args, c, d, sorted(kw.items())

    bump, read = outer()
    bump()
    compose = lambda *fns: lambda v: functools.reduce(lambda acc, fn: fn(acc), fns, v)
    fns = [lambda k=k: k for k in range(3)]
    late = [lambda: k for k in range(3)]
    return default(1), default(2), bump(), read(), varied(1, c=3), varied(1, 2, 3, c=4, z=5), compose(lambda v: v + 1, torch.relu)(x), [f() for f in fns], [f() for f in late], (lambda *a, **k: (a, k))(1, b=2)


@program(X)
def numbers_that_python_rounds(x: Tensor) -> Any:
    return 0.1 + 0.2, 1 / 3, 10**20, 2**-1, -(2**63), 5 // 2.0, 7.0 % 3, round(0.5), round(1.5), round(2.675, 2), int(-2.7), float("1e-3"), 1_000, 0x1F, x * 1e-3, 3 == 3.0, 1 == True, hash(1) == hash(1.0) if False else True  # noqa: E712


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]


@pytest.mark.parametrize("draw", [random.random, lambda: random.randint(0, 9), lambda: random.choice([1, 2]), collections.Counter])
def test_impure_library_calls_are_made_every_time(draw: Any) -> None:
    def fn(x: Tensor) -> Any:
        return x + 1, draw()

    random.seed(3)
    expected = [fn(X)[1] for _ in range(3)]
    import minicompile

    compiled = minicompile.compile(fn, backend="eager")
    random.seed(3)
    assert [compiled(X)[1] for _ in range(3)] == expected
