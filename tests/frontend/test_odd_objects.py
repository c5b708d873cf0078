"""Odd objects: modules, iterators, managers and comparisons of the program, with effects in their order, as in eager."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import types
import unittest.mock
from typing import Any

import pytest
import torch
from torch import nn

from .conftest import assert_like_eager
from .programs import Obj, Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
PROGRAMS = Programs()
program = PROGRAMS.program


@program(X)
def module_in_loop(x):
    outs = []
    for act in (nn.ReLU, nn.Tanh):
        m = nn.Sequential(act(), nn.Flatten())
        outs.append(m(x))
        m.extra = 5
        m.add_module("z", nn.Identity())
        outs.append(len(m))
        outs.append(hasattr(m, "extra"))
        del m.extra
        outs.append(hasattr(m, "extra"))
    return outs


@program(X)
def module_buffer_inside(x):
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("b", torch.ones(4))
            s.n = 0

        def forward(s, t):
            s.n += 1
            s.b += 1
            return t + s.b

    m = M()
    a = m(x)
    b = m(x)
    return a, b, m.n, list(dict(m.named_buffers())), m.b


@program(X)
def module_missing_super(x):
    class M(nn.Module):
        def __init__(s):
            s.lin = nn.ReLU()

    try:
        M()
    except AttributeError as e:
        return str(e), x


@program(X)
def functional_hooks(x):
    log = []
    m = nn.ReLU()
    h = m.register_forward_hook(lambda mod, i, o: log.append(tuple(o.shape)))
    y = m(x)
    h.remove()
    m(x)
    return y, log


@program(X)
def setattr_on_module_param(x):
    lin = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        lin.weight.fill_(0.5)
    return lin(x).detach()


@program(X)
def iter_next_default_exc(x):
    class It:
        def __init__(s):
            s.n = 0

        def __iter__(s):
            return s

        def __next__(s):
            s.n += 1
            if s.n == 2:
                raise KeyError("k")
            if s.n > 3:
                raise StopIteration(9)
            return s.n

    it = It()
    r = [next(it)]
    try:
        next(it)
    except KeyError:
        r.append("k")
    r.append(next(it))
    r.append(next(it, None))

    def g():
        v = yield from It2()
        yield v

    class It2:
        def __iter__(s):
            s.n = 0
            return s

        def __next__(s):
            s.n += 1
            if s.n > 1:
                raise StopIteration("val")
            return s.n

    return r, list(g()), x


@program(X)
def compare_protocols(x):
    class V:
        def __init__(s, v):
            s.v = v

        def __eq__(s, o):
            return NotImplemented

        def __lt__(s, o):
            return NotImplemented if not isinstance(o, V) else s.v < o.v

        def __gt__(s, o):
            return "gt"

        def __hash__(s):
            return hash(s.v)

        def __radd__(s, o):
            return ("radd", o)

        def __rmul__(s, o):
            return o * s.v

    a, b = V(1), V(2)
    r = [a == b, a != b, a == a, a < b, b > a, 5 + a, x * a, [1] + [2], (3 < a), a in [b, a]]
    try:
        a < 5
        r.append("none")
    except TypeError:
        r.append("te")
    try:
        a <= b
    except TypeError:
        r.append("te2")
    return r


@program(X)
def hash_keys(x):
    class K:
        def __init__(s, v):
            s.v = v

        def __hash__(s):
            return 1

        def __eq__(s, o):
            return s.v == o.v

    d = {K(1): "a"}
    d[K(1)] = "b"
    d[K(2)] = "c"
    return len(d), d[K(2)], K(1) in d, x


@program(X)
def attr_on_function(x):
    def f(t):
        f.calls += 1
        return t * f.calls

    f.calls = 0
    return f(x), f(x), f.calls


@program(X)
def getitem_slices(x):
    class S:
        def __getitem__(s, k):
            return k

        def __setitem__(s, k, v):
            s.last = (k, v)

        def __delitem__(s, k):
            s.last = ("del", k)

    s = S()
    r = [s[1:2], s[::2], s[1, 2:3], s[...], s[None]]
    s[1:3] = 4
    r.append(s.last)
    del s[5:]
    r.append(s.last)
    s["a"] = x.shape[0]
    s["q"] = 1
    return [str(v) for v in r[:5]], [str(v) for v in r[5:]], x


@program(X, [1, 2, 3])
def list_iter_remove(x, l):
    for v in l:
        if v == 1:
            l.remove(v)
    return l, x


@program(X)
def nonlocal_in_gen(x):
    t = 0

    def g():
        nonlocal t
        for i in range(3):
            t += i
            yield t

    r = [(v, t) for v in g()]
    return r, t, x


@program(X)
def try_in_gen_with_return(x):
    def g():
        try:
            yield 1
            return "r"
        finally:
            log.append("f")

    log = []
    it = g()
    next(it)
    try:
        next(it)
    except StopIteration as s:
        log.append(s.value)
    return log, x


@program(X)
def with_multiple_exc_in_exit(x):
    log = []

    class M:
        def __enter__(s):
            return s

        def __exit__(s, t, v, tb):
            log.append(t and t.__name__)
            raise KeyError("exit")

    try:
        with M():
            raise ValueError("in")
    except KeyError as e:
        log.append(type(e.__context__).__name__)
    try:
        with M():
            pass
    except KeyError as e:
        log.append(e.__context__)
    return log, x


@program(X)
def enter_raises(x):
    log = []

    class M:
        def __enter__(s):
            raise ValueError("enter")

        def __exit__(s, *a):
            log.append("never")

    try:
        with M():
            log.append("body")
    except ValueError as e:
        log.append(str(e))
    return log, x


@program(X)
def early_return_in_nested_finally(x):
    def f(k):
        for i in range(3):
            try:
                try:
                    if i == k:
                        return i
                finally:
                    log.append(("a", i))
            finally:
                log.append(("b", i))
                if k == 5:
                    continue
        return "end"

    log = []
    return f(1), f(5), log, x


@program(X)
def print_in_except_handler(x):
    y = x + 1
    try:
        print("try")
        raise ValueError("v")
    except ValueError as e:
        print("handler", e)
        y = y * 2
        try:
            raise KeyError("k")
        except KeyError as k:
            print("inner", k, type(k.__context__).__name__)
    finally:
        print("finally")
    return y * 3


@program(X)
def reraise_after_break(x):
    try:
        try:
            print("a")
            {}["k"]
        except KeyError:
            print("b")
            raise
    except KeyError as e:
        return e.args, x * 2


@program(X)
def exc_in_comprehension(x):
    try:
        return [1 // (2 - i) for i in range(4)]
    except ZeroDivisionError as e:
        return str(e), x


@program(X)
def dict_view_ops(x):
    d = {"a": 1, "b": 2}
    k = d.keys()
    d["c"] = 3
    return (
        list(k),
        k & {"a", "z"} == set("a"),
        k - {"a"} == set("bc"),
        ("a", 1) in d.items(),
        3 in d.values(),
        len(k),
        d.items() == {"x": 1}.items(),
        k == {"a", "b", "c"},
        x,
    )


@program(X)
def str_iter_and_bytes(x):
    return (
        [c for c in "ab"],
        list(b"ab"),
        "".join(reversed("abc")),
        "abc"[::-1],
        {c: i for i, c in enumerate("xy")},
        max("hello"),
        sorted("ba"),
        "ab",
        "x".join(str(i) for i in range(3)),
        x,
    )


@program(X)
def closures_share_cell(x):
    fs = []

    def make():
        c = [0]
        n = 0

        def a():
            nonlocal n
            n += 1
            c[0] += 1
            return n

        def b():
            return n, c

        return a, b

    a, b = make()
    a()
    print(b())
    a()
    return b(), x


@program(X, Obj(1))
def method_override_on_instance(x, o):
    o.go = lambda: 5
    r = [o.go()]
    o.go = types.MethodType(lambda s: s.v, o)
    r.append(o.go())
    del o.go
    return r, x


@program(X)
def int_subclass_bool(x):
    return (
        True + True,
        isinstance(True, int),
        [False, True][True],
        {True: 1}[1],
        sum([True, False]),
        bool(0.0),
        not "",
        x[True].shape,
    )


@program(X)
def reversals(x):
    class Own:
        def __iter__(self):
            return iter([1, 2])

        def __reversed__(self):
            return "own"

    class Sequence:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index * 10

    class Neither:
        def __iter__(self):
            return iter([1])

    refused = []
    for value in (Neither(), {1, 2}, (i for i in [1]), iter([1]), 5):
        try:
            refused.append(list(reversed(value)))
        except TypeError as e:
            refused.append(type(e).__name__)
    kept = [list(reversed(value)) for value in ({"a": 1, "b": 2}, range(3), "abc", (1, 2), [3, 4])]
    return x, reversed(Own()), list(reversed(Sequence())), kept, refused


class Wrapped:
    def __init__(self, inner):
        self.inner = inner

    @property
    def __class__(self):
        return type(self.inner)


OUTER = Wrapped([1, 2])


@program(X)
def gives_itself_out_as_another(x):
    class Dictlike:
        __class__ = property(lambda self: dict)

    made = Dictlike()
    told = [isinstance(made, kind) for kind in (dict, Dictlike, (list, int), (list, dict))]
    outer = [isinstance(OUTER, kind) for kind in (list, Wrapped, int)]
    return x + isinstance(OUTER, list), outer, told, type(made) is Dictlike


MOCKED = unittest.mock.Mock(spec=torch.nn.Linear)


@program(X)
def a_mock_of_a_module(x):
    return x + 1 if isinstance(MOCKED, torch.nn.Module) else x - 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    assert_like_eager(fn, args, eager=True)
