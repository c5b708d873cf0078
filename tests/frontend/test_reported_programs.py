"""Programs as bug reports show them: generators left in a loop, descriptors, counters, autocast of all forms, custom
gradients under autocast, tensors that no graph may hold. One graph where that can be right, and eager's results."""

# ruff: noqa (the programs are what users write)

from __future__ import annotations

import abc
import collections
import contextlib
import warnings
from typing import Any

import pytest
import torch
from torch.autograd import Function

import minicompile

from ..support import assert_same
from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4) / 8
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)  # torch is to give them up
    Q = torch.quantize_per_tensor(X, 0.1, 3, torch.quint8)
WHOLE, BROKEN, GRADIENTS, LEFT_ELSEWHERE = Programs(), Programs(), Programs(), Programs()
whole, broken, gradients = WHOLE.program, BROKEN.program, GRADIENTS.program
AUTOCAST = torch.autocast("cpu", dtype=torch.bfloat16)


# ---- generators that are left in the middle ----


def parts(x, log, count=5):
    try:
        for i in range(count):
            yield x * i
    finally:
        log.append("closed")


@whole(X)
def left_by_break(x):
    log = []
    for y in parts(x, log):
        if y is not None:
            break
    log.append("after")
    return y, log


@whole(X)
def left_by_return(x):
    log = []

    def first():
        for y in parts(x, log):
            for z in parts(y, log):
                return z + 1

    z = first()
    log.append("found")
    return z, log


@whole(X)
def left_in_a_delegation(x):
    log = []

    def outer():
        with contextlib.suppress(ValueError):
            yield from parts(x, log)
        log.append("not reached")

    for y in outer():
        break
    log.append("after")
    return y + 1, log


@whole(X)
def thrown_into_a_delegation(x):
    log = []

    def numbers():
        try:
            yield from [x, x + 1]
        except KeyError as error:
            log.append(str(error))
            yield from (x * 3,)

    it = numbers()
    return next(it), it.throw(KeyError("k")), it.close(), log


@LEFT_ELSEWHERE.program(X)
def left_where_closing_prints(x):
    def numbers():
        try:
            yield x
        finally:
            print("closed")

    for y in numbers():
        break
    print("after")
    return y + 1


@whole(X)
def left_and_made_again(x):
    log = []
    for i in range(3):
        for y in parts(x, log, 2):
            if i:
                break
        else:
            log.append("else")
    return y, log


@LEFT_ELSEWHERE.program(X)
def left_and_kept(x):
    log = []
    it = parts(x, log)
    for y in it:
        break
    log.append("after")
    return next(it), log


@LEFT_ELSEWHERE.program(X)
def left_and_kept_in_a_list(x):
    log = []
    box = [parts(x, log)]
    for y in box[0]:
        break
    log.append("after")
    return next(box[0]), log


@LEFT_ELSEWHERE.program(X)
def left_within_another_iterator(x):
    log = []
    for i, y in enumerate(parts(x, log)):
        if i == 1:
            break
    log.append("after")
    return y, log


@LEFT_ELSEWHERE.program(X)
def left_by_an_exception(x):
    log = []
    try:
        for y in parts(x, log):
            raise KeyError("z")
    except KeyError:
        log.append("caught")
    return y, log


@LEFT_ELSEWHERE.program(X)
def left_after_one(x):
    log = []
    y = next(parts(x, log))
    log.append("after")
    return y, log


# ---- descriptors, dicts, counters, sets ----


class Doubled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, None)

    def __set__(self, obj, value):
        setattr(obj, self.name, value * 2)

    def __delete__(self, obj):
        delattr(obj, self.name)


class OfClass:
    def __get__(self, obj, owner):
        return owner.__name__, owner.k


class Base:
    a, b, k = Doubled(), OfClass(), 3


class Derived(Base):
    k = 4


@whole(X)
def descriptors_read_from_classes(x):
    c = Base()
    c.a = x
    y = c.a
    del c.a
    return y, c.a, type(Base.a).__name__, Base.b, Derived.b, c.b, Derived().b, Base.a.name


@whole(X, collections.Counter("aab"))
def counters(x, c):
    c.update("abca")
    c["z"] -= 1
    d, e = collections.Counter(a=1), collections.Counter([1, 1, 2])
    d.update({"q": 3})
    c.subtract("a")
    return x * c["a"], c.most_common(2), c + d, -c, c & d, c["nope"], list(c.elements()), e, e.total(), c


@whole(X)
def chained_maps(x):
    c = collections.ChainMap({"a": x}, {"a": 1, "b": 2})
    c["q"] = x + 1
    d = c.new_child({"n": x})
    return c["a"], c["b"], list(c), c.maps[0], "b" in c, len(c), dict(d), d.parents["a"], c.get("zz", 3)


@whole(X)
def dicts_from_keys(x):
    ordered = collections.OrderedDict.fromkeys((1, 2), 0)
    made = dict.fromkeys("ab"), dict.fromkeys(["a", "b"], x), dict.fromkeys(i * 2 for i in range(3))
    return *made, ordered, dict.fromkeys({"k": x}, 1), list(dict.fromkeys([3, 1, 3])), type(ordered).__name__


@whole(X, {5, 1, 2})
def sets_whose_order_does_not_matter(x, s):
    s.add(3)
    t = frozenset(s)
    return x * len(s), t, set(t), sorted(s), min(s), max(t), sorted(s, reverse=True), s


@broken(X, {1, 2.5, True, (3,)}, 1)
def sets_whose_order_matters(x, s):
    return x + 1, [item for item in s], x * 2


@whole(X, [1, 2, 3])
def reversed_lists_that_change(x, given):
    l = [x, 2, 3]
    r = reversed(l)
    a = next(r)
    l[0] = x + 5
    l.append(7)
    b = next(r)
    l.pop()
    s = reversed(given)
    c = next(s)
    given.append(x)
    del given[:2]
    t = reversed((x, 1))
    next(t)
    kinds = [type(i).__name__ for i in (r, s, t)]
    return a, b, list(r), list(r), c, list(s), next(t), [*reversed(given)], kinds, 2 in reversed([1, 2])


def test_reversed_lists_that_are_returned():
    def fn(x, l):
        r, t = reversed(l), reversed((x, 1))
        next(r)
        l.append(x)
        return r, t, l

    found = []
    for run in (fn, minicompile.compile(fn, fullgraph=True)):
        r, t, l = run(X, [1, 2, 3])
        found.append((type(r), type(t), next(r), l.pop(), list(r), next(t)))
    assert found[0] == found[1]


class Pair:
    def __divmod__(self, other):
        return "divmod", other

    def __rdivmod__(self, other):
        return "rdivmod", other


@whole(X, 3)
def division_with_remainder(x, n):
    return divmod(Pair(), x), divmod(4, Pair()), divmod(7, 2), divmod(x.shape[1], n), divmod(-7.5, 2), n == True, n + True


@broken(X, 3)
def texts_of_tensors(x):
    return "%s" % x[0], "%s %d" % (x[0], 3), "%(a)s" % {"a": x[0]}, b"%a" % x[0], x == "a", "a" != x


def test_tensors_have_no_divmod():
    for fn in (lambda x: divmod(x, 3), lambda x: divmod(3, x)):
        found = []
        for run in (fn, minicompile.compile(fn)):
            with pytest.raises(TypeError) as error:
                run(X)
            found.append(str(error.value))
        assert found[0] == found[1]


def test_a_class_that_is_registered_later():
    class Shape(abc.ABC):
        pass

    class Round(Shape):
        pass

    def fn(x, v):
        return x * 2 if isinstance(v, Shape) else x

    compiled = minicompile.compile(fn, fullgraph=True)
    square = Pair()
    for register in (False, True):
        if register:
            Shape.register(Pair)
        for v in (square, Round(), 3, square):
            assert_same(compiled(X, v), fn(X, v))
    assert len(compiled.entries) == 4


def test_an_int_compared_with_a_truth_stays_open():
    def fn(x, n):
        return x * n, n == True, True - n, n > False, True // n

    compiled = minicompile.compile(fn, fullgraph=True)
    for n in (3, 4, 5, 7):
        assert_same(compiled(X, n), fn(X, n))


# ---- results with a place of their own ----


LOWERED = Programs()


@LOWERED.program(X)
def out_keeps_its_strides(x):
    b, c = torch.empty(4, 2).t(), torch.empty(2, 4)
    r = torch.add(x, 1, out=b)
    torch.mul(x.t().contiguous().t(), 2, out=c)
    return r is b, b, c, b.stride(), b.as_strided((8,), (1,)), c.as_strided((8,), (1,)), b.t().view(-1) + 1


@LOWERED.program(X, torch.empty(4, 2).t())
def out_from_outside(x, b):
    torch.matmul(x, torch.eye(4), out=b)
    torch.cat([b[:1], b[1:] * 2], out=torch.empty(4, 2).t())
    return b.as_strided((8,), (1,)), b.t().view(-1) * 2


# ---- autocast ----


@torch.autocast("cpu", dtype=torch.bfloat16)
def cast(x):
    return x @ x.T, torch.is_autocast_enabled("cpu")


class Cast(torch.nn.Module):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        return x @ x.T


CAST = Cast()


@whole(X)
def autocast_as_decorator(x):
    return cast(x), x @ x.T, CAST(x), torch.is_autocast_enabled("cpu")


@whole(X)
def autocast_made_before(x):
    with AUTOCAST:
        y = x @ x.T
    try:
        with AUTOCAST:
            raise ValueError("q")
    except ValueError:
        z = x @ x.T
    return y, z, torch.is_autocast_enabled("cpu")


def test_settings_of_an_autocast_made_before_are_guarded():
    kinds = [AUTOCAST, torch.autocast("cpu", enabled=False), torch.autocast("cpu", dtype=torch.float16)]

    def fn(x):
        with kinds[0]:
            return x @ x.T

    compiled = minicompile.compile(fn, fullgraph=True)
    for _ in range(6):
        torch.testing.assert_close(compiled(X), fn(X))
        kinds.append(kinds.pop(0))


class CastFunction(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g + g.T) @ x


class AsAround(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x.T

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ((g + g.T) @ x).float()


@gradients()
def function_that_casts_its_inputs(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return CastFunction.apply(x @ x.T), CastFunction.apply(x)


@gradients()
def function_that_casts_nothing_outside_autocast(x):
    return CastFunction.apply(x)


@gradients()
def function_whose_backward_runs_as_its_forward(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return AsAround.apply(x), torch.is_autocast_enabled("cpu")


class LeavesOut(Function):
    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T, x.T @ g


class LeavesOneOut(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return (0 if a is None else a) + (5 if b is None else b)


@gradients()
def function_that_leaves_no_gradients_out(x):
    return LeavesOut.apply(x, x.T.exp()).relu()


def test_gradients_that_are_left_out():
    """One result of two is used: its function has to be told so, which only the real one is."""
    for _ in range(2):
        found = []
        for run in (LeavesOneOut.apply, minicompile.compile(lambda x: LeavesOneOut.apply(x), backend="eager")):
            x = X.clone().requires_grad_()
            run(x)[0].sum().backward()
            found.append(x.grad)
        assert torch.equal(*found)


# ---- tensors that no graph may hold ----


@broken(X, 1)
def quantised_inside(x):
    q = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    return q.dequantize() + 1, q.int_repr() * 2, q.q_scale(), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 9)


@broken(X, Q, 2)
def quantised_argument(x, q):
    return q.dequantize() + x, q.int_repr()


@broken(X, 1)
def sparse_made(x):
    s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 3]]), x[0, :2], (2, 4))
    return s.to_dense() + x


@broken(X, 1)
def sparse_of_rows(x):
    s = (x + 1).to_sparse_csr()
    return s @ x.T, s.values() + 2, s.crow_indices()


@broken(X, 1)
def sparse_of_dense(x):
    s = x.to_sparse()
    y = x * 2
    return torch.sparse.mm(s, x.T) + 1, s.to_dense() * 2, s.coalesce().values().sum() + y


# ---- the tests ----


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = WHOLE[name]
    assert_like_eager(fn, args, fullgraph=True)


@pytest.mark.parametrize("name", LOWERED)
def test_through_our_own_lowering(name: str) -> None:
    fn, args = LOWERED[name]
    assert_same(minicompile.compile(fn, fullgraph=True)(*args), fn(*args))


@pytest.mark.parametrize("name", LEFT_ELSEWHERE)
def test_like_eager(name: str) -> None:
    fn, args = LEFT_ELSEWHERE[name]
    assert_like_eager(fn, args, eager=True)


@pytest.mark.parametrize("name", BROKEN)
def test_breaks_like_eager(name: str) -> None:
    fn, (*args, least) = BROKEN[name]
    compiled = minicompile.compile(fn)
    for _ in range(2):
        assert_same(compiled(*args), fn(*args))
    assert len(compiled.breaks) >= least


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_like_eager(name: str) -> None:
    fn, _ = GRADIENTS[name]
    found = []
    for run in (fn, compiled := minicompile.compile(fn, fullgraph=True)):
        x = X.clone().requires_grad_()
        out = run(x)
        tensors = [part for part in (out if isinstance(out, tuple) else (out,)) if isinstance(part, torch.Tensor)]
        sum(part.float().sum() for part in tensors).backward()
        found.append((out, x.grad))
    torch.testing.assert_close(found[1], found[0])
    assert len(compiled.entries) == 1
