"""Odd uses of protocols, classes, exceptions and iterators: effects once, at their time, in their order, as in eager."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import itertools
from typing import Any

import pytest
import torch

from .conftest import assert_like_eager
from .programs import Obj, Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
PROGRAMS = Programs()
program = PROGRAMS.program


@program(X)
def class_identity(x):
    class A:
        pass

    class B(A):
        x = 1

    return B.__mro__[1] is A, A() is A(), type(A()).__name__, B.x, isinstance(B(), A), A.__module__, B.__qualname__


@program(X)
def class_escapes(x):
    class A:
        items = []

        def add(s, v):
            s.items.append(v)
            return s

        def __repr__(s):
            return f"A{len(s.items)}"

    a = A().add(1).add(x)
    b = A()
    return repr(a), repr(b), a.items is b.items


@program(X, [])
def class_with_broken_body(x, l):
    try:

        class A:
            l.append("body")
            y = 1 / 0
            l.append("never")
    except ZeroDivisionError:
        l.append("caught")
    return x


@program(X)
def class_closure_and_super(x):
    class A:
        def f(s):
            return ["A"]

    class B(A):
        def f(s):
            return ["B"] + super().f()

    class C(A):
        def f(s):
            return ["C"] + super().f()

    class D(B, C):
        def f(s):
            g = super().f
            return ["D"] + g()

    print("brk")
    return D().f(), x


@program(X)
def object_after_break(x):
    class A:
        def __init__(s):
            s.n = 0

        def inc(s):
            s.n += 1
            return s

    a = A()
    a.inc()
    print(a.n)
    a.inc()
    return a.n, type(a) is A, isinstance(a, A), x * a.n


@program(X)
def exception_after_break(x):
    class E(Exception):
        pass

    print("a")
    try:
        raise E("x")
    except E as e:
        r = str(e)
    print(r)
    try:
        print("in try")
        raise E("y")
    except E as e:
        r += str(e)
    return r, x


@program(X, Obj(1))
def del_attr_then_default(x, o):
    o.w = 2
    del o.w
    try:
        del o.w
    except AttributeError:
        o.z = "missing"
    return hasattr(o, "w"), o


@program(X, Obj(1))
def vars_update(x, o):
    vars(o).update(q=3)
    o.r = 4
    d = o.__dict__
    d["s"] = 5
    o.v = 9
    del d["q"]
    return sorted(d), o.s, o, len(vars(o)), hasattr(o, "q")


@program(X, Obj([1]))
def copy_outside(x, o):
    c = copy.copy(o)
    d = copy.deepcopy(o)
    c.v.append(2)
    d.v.append(3)
    c.n = 1
    return o, c, d, c.v is o.v


@program(X, {"a": [1, {"b": 2}]})
def deepcopy_shared(x, d):
    a = [1]
    t = copy.deepcopy([a, a, d])
    t[0].append(2)
    return t, t[0] is t[1], d


@program(X)
def islice_shared(x):
    it = iter(range(10))
    a = list(itertools.islice(it, 3))
    b = next(it)
    c = list(itertools.takewhile(lambda v: v < 7, it))
    d = list(it)
    return a, b, c, d


@program(X)
def tee_batched(x):
    a, b = itertools.tee([1, 2, 3])
    return list(a), next(b), x


@program(X)
def groupby_lazy(x):
    log = []

    def src():
        for v in (1, 1, 2, 3, 3):
            log.append(v)
            yield v

    for k, g in itertools.groupby(src()):
        log.append(("k", k))
        if k != 2:
            log.append(list(g))
    return log


@program(X)
def chain_partially(x):
    c = itertools.chain([1, 2], [3])
    a = next(c)
    print(a)
    return list(c), x


@program(X, collections.deque([1, 2]))
def deque_iter_mutation(x, d):
    try:
        for v in d:
            d.append(v)
    except RuntimeError as e:
        return str(e), d


@program(X, collections.deque([1, 2, 3], maxlen=3))
def deque_break(x, d):
    d.append(4)
    print(list(d))
    d.appendleft(0)
    e = collections.deque(d)
    e.rotate()
    return d, e, d == e, d[1], x


@program(X)
def set_algebra(x):
    a = {1, 2, 3}
    b = a
    b |= {4}
    c = a - {1}
    a &= {2, 3, 4}
    c.symmetric_difference_update({2, 9})
    d = a.union([7], (8,))
    a.difference_update([2])
    return a, b is a, c, d, a <= d, {1}.isdisjoint([2]), frozenset([1]) == ({1})


@program(X)
def autocast_nested_exc(x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            raise ValueError
    except ValueError:
        pass
    return y.dtype, (x @ x.T).dtype, torch.is_autocast_enabled("cpu")


@program(X)
def autocast_return_inside(x):
    def f():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for i in range(2):
                if i:
                    return x @ x.T

    return f().dtype, (x @ x.T).dtype


@program(X)
def autocast_index_error(x):
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = (x @ x.T)[torch.tensor([9])]
    except IndexError:
        y = x
    return y, (x @ x.T).dtype, torch.is_autocast_enabled("cpu")


@program(X)
def nograd_index_error(x):
    try:
        with torch.no_grad():
            y = x[torch.tensor([9])]
    except IndexError:
        y = x * 2
    return y, torch.is_grad_enabled()


@program(X)
def fstring_debug(x):
    n = 3
    s = "é"
    return f"{n=} {s!r} {s!a} {n:>{n + 2}} {x.shape[0]:03} {{}} {'ab'}", x


@program(X)
def match_guard_effects(x):
    log = []

    def g(v):
        log.append(v)
        return v > 1

    r = []
    for v in (0, [1, 2], {"a": 3}, (1, 2, 3), "s"):
        match v:
            case int() if g(v):
                r.append("i")
            case [a, *b] if g(a):
                r.append(("l", a, b))
            case [a, b]:
                r.append((a, b))
            case {"a": a, **k}:
                r.append((a, k))
            case str():
                r.append("s")
            case _:
                r.append("_")
    return r, log, x


@program(X)
def sort_error_restores(x):
    l = [3, "a", 1]
    try:
        l.sort()
    except TypeError:
        return l, x


@program(X)
def zip_strict_error(x):
    log = []
    try:
        for a, b in zip([1, 2], [3], strict=True):
            log.append((a, b))
    except ValueError as e:
        log.append(str(e))
    return log, x


@program(X)
def map_none_end(x):
    m = map(lambda a, b: (a, b), [1, 2, 3], [4, 5])
    return list(m), list(m), x


@program(X)
def named_tuple_ops(x):
    N = collections.namedtuple("N", "a b")
    n = N(1, b=x)
    return n._fields, n.a, n[0], n._replace(a=5).a, isinstance(n, tuple), N.__name__


@program(X)
def dataclass_in(x):
    @dataclasses.dataclass
    class D:
        a: int
        b: list = dataclasses.field(default_factory=list)

    d = D(1)
    d.b.append(2)
    return d.a, d.b, D(2).b, x


@program(X)
def enum_in(x):
    class E(enum.Enum):
        A = 1
        B = 2

    return E.A.value, E(2).name, [e.name for e in E], x


@program(X)
def generator_return_value_and_send(x):
    def g():
        t = 0
        while True:
            v = yield t
            if v is None:
                return t
            t += v

    it = g()
    next(it)
    it.send(3)
    it.send(4)
    try:
        it.send(None)
    except StopIteration as s:
        return s.value, x


@program(X)
def contextmanager_nested_exc(x):
    log = []

    @contextlib.contextmanager
    def m(n, sw):
        log.append(n)
        try:
            yield n
        except KeyError as e:
            log.append(("caught", n, e.args))
            if not sw:
                raise ValueError(n) from e
        finally:
            log.append(-n)

    try:
        with m(1, True), m(2, False):
            raise KeyError("k")
    except ValueError as e:
        log.append((e.args, type(e.__cause__).__name__))
    with m(3, True):
        raise KeyError
    return log, x


@program(X)
def exitstack(x):
    log = []
    with contextlib.ExitStack() as s:
        for i in range(3):
            s.callback(log.append, i)
        s.enter_context(contextlib.suppress(ValueError))
        log.append("body")
        raise ValueError
    return log, x


@program(X)
def raise_from_loop_else(x):
    for i in range(3):
        try:
            if i == 1:
                raise ValueError
        except ValueError:
            continue
        else:
            x = x + i
        finally:
            x = x * 2
    else:
        x = x - 1
    return x


@program(X)
def unpack_errors(x):
    r = []
    for v in ([1], [1, 2, 3]):
        try:
            a, b = v
        except ValueError as e:
            r.append(str(e))
    try:
        a, b = 5
    except TypeError as e:
        r.append(str(e))
    try:
        [].pop()
    except IndexError as e:
        r.append(str(e))
    try:
        {}.popitem()
    except KeyError as e:
        r.append(str(e))
    try:
        (1).foo
    except AttributeError as e:
        r.append(str(e))
    try:
        None + 1
    except TypeError as e:
        r.append(str(e))
    try:
        [1][2]
    except IndexError as e:
        r.append(str(e))
    try:
        int("q")
    except ValueError as e:
        r.append(str(e))
    try:
        len(3)
    except TypeError as e:
        r.append(str(e))
    try:
        Obj(1).nope
    except AttributeError as e:
        r.append(str(e))
    try:
        Obj()
    except TypeError as e:
        r.append(str(e))
    return r, x


@program(X)
def fn_errors(x):
    r = []

    def f(a, *, b):
        return a

    for args, kw in [((), {}), ((1,), {}), ((1, 2), {"b": 1}), ((1,), {"c": 2, "b": 1})]:
        try:
            f(*args, **kw)
        except TypeError as e:
            r.append(str(e))
    return r, x


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    assert_like_eager(fn, args, eager=True)
