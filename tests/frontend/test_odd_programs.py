"""Odd programs, with effects that must be seen once, at their time and in their order: as in eager, break or not."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import collections
import contextlib
import warnings
from typing import Any

import pytest
import torch

from .conftest import assert_like_eager
from .programs import Obj, Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
PROGRAMS = Programs()
program = PROGRAMS.program
G1, GL, COUNT = {"a": 1}, [1], 0


@program(X, [])
def list_arg_default_mutated(x, l):
    def f(a, acc=[]):
        acc.append(a)
        return acc

    r1 = f(1)
    r2 = f(2)
    l.append(r1)
    return r1 is r2, r2


@program(X, Obj(2))
def attr_during_iter(x, o):
    o.items = [1, 2]
    for i in o.items:
        if i < 3:
            o.items.append(i + 2)
    return o.items, x * len(o.items)


@program(X)
def global_mut(x):
    global COUNT
    COUNT += 1

    def inner():
        global COUNT
        COUNT += 10
        return COUNT

    a = inner()
    print(COUNT)
    COUNT -= 11
    return a - COUNT, x + 1


@program(X, {"a": [1]})
def dict_iter_mutation(x, d):
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as e:
        return str(e), x * len(d)


@program(X)
def try_return_finally(x):
    log = []

    def f():
        try:
            return log.append("try") or x * 2
        finally:
            log.append("fin")

    return f(), log


@program(X, [])
def exception_in_callee_effects(x, l):
    def g(t):
        l.append(t.shape[0])
        t.mul_(2)
        if t.shape[0] == 2:
            raise KeyError(t.shape)

    try:
        g(x)
    except KeyError as e:
        l.append(e.args[0])
    return x + 1


@program(X, [3, 1, 2])
def sort_with_effects(x, l):
    log = []
    l.sort(key=lambda v: log.append(v) or -v)
    return log, l, x


@program(X)
def generator_partial(x):
    log = []

    def g():
        log.append("s")
        for i in range(3):
            log.append(i)
            yield x * i
        log.append("e")

    it = g()
    a = next(it)
    log.append("m")
    b = next(it)
    print(log)
    c = list(it)
    return a, b, c, log


@program(X)
def closure_cell_after_break(x):
    n = 1

    def inc():
        nonlocal n
        n += 1
        return n

    a = inc()
    print(a)
    b = inc()
    print(n)
    n = 10
    c = inc()
    return a, b, c, n, x + n


@program(X)
def print_order(x):
    for i in range(2):
        print("a", i)
        x = x + i
        print("b", tuple(x.shape))
    return x


@program(X)
def warn_order(x):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        warnings.warn("one")
        x = x + 1
        warnings.warn("two")
    return x, [str(v.message) for v in w]


@program(X)
def try_torch_error(x):
    try:
        y = torch.cat([x, x.sum(0)])
    except RuntimeError as e:
        y = str(e)
    return y


@program(X)
def except_then_reraise_other(x):
    try:
        try:
            raise ValueError(1)
        except ValueError:
            raise TypeError(2)
    except TypeError as e:
        return type(e.__context__).__name__, e.args, x


@program(X)
def nested_func_defaults(x):
    fs = []
    for i in range(3):

        def f(t, i=i, *, k=i * 2):
            return t * i + k

        fs.append(f)
    return [f(x) for f in fs], fs[0].__kwdefaults__


@program(X, collections.OrderedDict(a=1))
def od_order(x, d):
    d["b"] = x
    d["a"] = 2
    d.move_to_end("a")
    d.setdefault("c", 3)
    return list(d.items())[0][0], d.pop("c")


@program(X, [1, 2, 3])
def del_slices(x, l):
    del l[::2]
    l[len(l) :] = [7, 8]
    l[1:1] = [x]
    return l


@program(X)
def walrus_in_comp(x):
    y = [z for i in range(4) if (z := i * 2) > 2]
    return y, z, x


@program(X)
def str_methods_on_attr(x):
    class C:
        def __repr__(self):
            return "C!"

        def __format__(self, s):
            return f"<{s}>"

    c = C()
    return f"{c} {c!r} {c:abc} {[c]}", str(c), "%s" % c, x


@program(X)
def bool_protocol(x):
    class B:
        def __init__(s, n):
            s.n = n
            s.log = []

        def __len__(s):
            s.log.append("len")
            return s.n

    b = B(0)
    r = 1 if b else 2
    return r, (b or 5), b.log, not b


@program(X)
def contains_protocol(x):
    class C:
        def __iter__(s):
            yield from (1, 2, 3)

    return 2 in C(), 9 in C(), list(C()), [*C()], max(C()), sum(C()), x


@program(X)
def ctx_return_inside(x):
    log = []

    class M:
        def __enter__(s):
            log.append("in")
            return s

        def __exit__(s, *a):
            log.append(a[0])
            return False

    def f():
        with M() as m, M():
            for i in range(3):
                with M():
                    if i == 1:
                        return x * i

    return f(), log


@program(X)
def star_args(x):
    def f(*a, **k):
        return len(a), sorted(k.items())

    a = [1, 2]
    k = {"p": 1}
    return f(*a, *range(2), **k, q=3), f(*"ab"), f(**{**k, "p": 5}), x


@program(X)
def int_ops(x):
    n = x.shape[0]
    return (
        n // 3,
        n % 3,
        -n // 3,
        n**3,
        n / 4,
        divmod(-n, 3),
        round(n / 3, 2),
        n << 2,
        ~n,
        float(n),
        str(n) + "!",
        f"{n:03d}",
        n.bit_length(),
        int("7") * n,
        [0] * n,
        "a" * n,
        range(n)[-1],
        list(range(n, 0, -1)),
        slice(n),
        complex(n),
    )


@program(X)
def nested_try_loop(x):
    out = []
    for i in range(4):
        try:
            try:
                if i == 0:
                    continue
                if i == 1:
                    raise KeyError(i)
                if i == 2:
                    raise ValueError(i)
                out.append("ok")
            except KeyError:
                out.append("k")
            else:
                out.append("else")
            finally:
                out.append(("f", i))
        except ValueError as e:
            out.append(e.args)
    return out, x * len(out)


@program(X)
def user_exc_eq(x):
    e1 = ValueError(1)
    e2 = ValueError(1)
    return e1 == e2, e1 is e1, [e1] == [e1], len({e1, e2}), x


@program(X)
def getattr_missing_default_with_property(x):
    class A:
        @property
        def bad(s):
            raise AttributeError("inner")

        @property
        def worse(s):
            raise KeyError("k")

    a = A()
    r = getattr(a, "bad", 7), hasattr(a, "bad")
    try:
        hasattr(a, "worse")
    except KeyError:
        r += ("key",)
    return r, x


@program(X)
def dict_of_tensors_keys(x):
    y = x + 1
    d = {x: 1, y: 2}
    return d[x], d[y], x in d, len(d), (x * 2) in d


@program(X)
def tensor_in_list(x):
    l = [x, x + 1]
    return any(t is x for t in l), l.index(x), x


@program(X)
def setdefault_append(x):
    d = {}
    for k, v in [("a", 1), ("b", 2), ("a", 3)]:
        d.setdefault(k, []).append(v)
    g = collections.defaultdict(lambda: [0])
    g["z"][0] += 1
    return d, dict(g), x


@program(X)
def frozen_and_tuple_keys(x):
    d = {(1, 2): x, frozenset({3}): 2}
    return d[(1, 2)], d[frozenset([3])], {(1, (2, 3)): 4}[(1, (2, 3))]


@program(X, [[1, 2], [3]])
def nested_alias(x, l):
    a = l[0]
    a.append(x.shape[0])
    l.append(a)
    l[1] += [9]
    b, *c = l
    return b is a, l[2] is l[0], c


@program(X)
def late_binding_global(x):
    G1["a"] += 1
    GL.append(2)
    r = G1["a"], len(GL)
    G1["a"] -= 1
    GL.pop()
    return r, x


@program(X)
def chained_assign(x):
    a = b = c = []
    a.append(1)
    (d, e), f = (1, 2), 3
    a, b = b, a
    i = 0
    l = [0, 0]
    i, l[i] = 1, 5
    return a, b, c, d, e, f, i, l, x


@program(X)
def gen_exc_cleanup(x):
    log = []

    def g():
        try:
            yield 1
            yield 2
        except GeneratorExit:
            log.append("ge")
            raise
        finally:
            log.append("f")

    for v in g():
        break
    log.append("after")
    return log, x


@program(X)
def enumerate_break(x):
    it = iter(range(10))
    for i, v in enumerate(it):
        if v == 3:
            break
    z = zip(it, it)
    a = next(z)
    return i, a, list(it), x


@program(X)
def sum_of_lists_and_star(x):
    return sum(([i] for i in range(3)), []), [*map(str, range(3))], dict(enumerate("ab")), set(map(len, ["a", "bb"])), x


@program(X)
def in_place_alias_ops(x):
    a = x
    a += 1
    b = x[0]
    b *= 2
    c = x.clone()
    c[1] = 0
    v = x.view(-1)
    v[3] = -1
    return x, a is x, b, c, v


@program(X)
def del_local(x):
    y = x + 1
    del y
    try:
        return y
    except NameError as e:
        return type(e).__name__


@program(X)
def recursion_exc(x):
    def f(n):
        if n == 0:
            raise StopIteration("deep")
        try:
            return f(n - 1)
        finally:
            log.append(n)

    log = []
    try:
        f(3)
    except StopIteration as s:
        return s.value, log, x


@program(X)
def yield_in_with(x):
    log = []

    @contextlib.contextmanager
    def m(n):
        log.append(n)
        try:
            yield n
        except ValueError:
            log.append("v")
        finally:
            log.append(-n)

    def g():
        with m(1):
            yield x
            with m(2):
                yield x * 2

    r = list(g())
    with m(3):
        raise ValueError
    return r, log


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    assert_like_eager(fn, args, eager=True)
