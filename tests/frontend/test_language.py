"""Python, one feature a row: captured in one graph, with results and side effects as in eager."""

# ruff: noqa: E501, B009, B010, B905, E714, UP003, UP031, UP032 (the programs are what users write)

from __future__ import annotations

import functools
import math
import operator
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import register_pytree_node

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")


def tensors(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


X, Y = tensors((4, 8), (4, 8))
PROGRAMS = Programs()
program = PROGRAMS.program


# ---- functions and arguments ----


def helper(a: Tensor, b: int = 2, *rest: int, k: int = 1, **named: int) -> Tensor:
    return a * b + k + sum(rest) + named.get("z", 0)


@program(X)
def every_kind_of_argument(x: Tensor) -> Any:
    return helper(x), helper(x, 3, 4, 5), helper(x, b=3, k=5, z=7), helper(*[x, 2, 3], **{"k": 2, "y": 1})


@program(X)
def keyword_only_and_positional_only(x: Tensor) -> Any:
    def f(a: Tensor, /, b: int = 2, *, c: int = 3) -> Tensor:
        return a * b + c

    return f(x), f(x, 3, c=1), f(x, b=4)


@program(X, Y)
def arguments_of_the_root(x: Tensor, y: Tensor = Y, *rest: Any, scale: float = 2.0, **named: Any) -> Any:
    return x * scale + y, rest, named


@program(X)
def closure_with_nonlocal(x: Tensor) -> Any:
    n = 3

    def inner(t: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return t * n

    return inner(x), inner(x), n


@program(X)
def function_returned(x: Tensor) -> Any:
    def scale(k: int) -> Any:
        return lambda t: t * k

    return scale(3)(x)


@program(X)
def recursion(x: Tensor) -> Any:
    def power(t: Tensor, n: int) -> Tensor:
        return t if n == 0 else t * power(t, n - 1)

    return power(x, 3)


def doubled(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated(x: Tensor) -> Tensor:
    return x + 1


@program(X)
def decorators(x: Tensor) -> Any:
    return decorated(x), decorated.__name__


@program(X)
def partials_and_reduce(x: Tensor) -> Any:
    add = functools.partial(torch.add, alpha=2)
    return functools.reduce(add, [x, x + 1, x + 2]), functools.partial(helper, b=5)(x)


@program(X)
def map_filter_sorted(x: Tensor) -> Any:
    kept = list(filter(lambda n: n % 2, range(6)))
    return [x * n for n in map(lambda n: n + 1, kept)], sorted([3, 1, 2], key=lambda n: -n), sorted("bca", reverse=True)


# ---- containers ----


@program(X)
def lists(x: Tensor) -> Any:
    items = [x, x + 1]
    items.append(x * 2)
    items.insert(0, x - 1)
    items[1] = x * 5
    del items[0]
    first, *rest = items
    items += [first]
    return items, rest, items[-1], items[::2], len(items), items.pop(), [1, 2] * 2, 3 in [1, 2, 3]


@program(X)
def dicts(x: Tensor) -> Any:
    d = {"a": x, 1: 2}
    d["b"] = x + 1
    d.update(c=3)
    d |= {"e": 5}
    e = {**d, "a": 0}
    return d, e, list(d), list(d.items())[1:], d.get("zz", 7), d.pop("c"), "a" in d, d.setdefault("q", 9)


@program(X)
def dict_kinds(x: Tensor) -> Any:
    d: defaultdict[str, list[Any]] = defaultdict(list)
    d["a"].append(x)
    o = OrderedDict(a=1, b=2)
    o.move_to_end("a")
    return dict(d), list(o), {k: v for k, v in zip("ab", (x, x + 1))}


@program(X)
def tuples_and_slices(x: Tensor) -> Any:
    a, (b, c) = 1, (2, x)
    s = slice(1, None)
    return (a, b, c)[s], x[1:3, ::2], x[..., -1], x[None, 0], (1, 2) + (3,), (1, 2) < (1, 3)


@program(X)
def sets(x: Tensor) -> Any:
    s = {1, 2}
    s.add(3)
    s.discard(1)
    t = s | {7} - {8}
    t &= {3, 7, 9}
    return x * len(s), sorted(s), 2 in s, s, t, s <= {1, 2, 3}, s ^ t, {1, 2} == {2, 1}, frozenset([1]) | {2}


Point = namedtuple("Point", "a b")


@program(X)
def named_tuples(x: Tensor) -> Any:
    p = Point(x, b=2)
    return p.a * p.b, p._replace(b=3), p._asdict()


@program(X)
def comprehensions(x: Tensor) -> Any:
    k = 2
    return [x * i + k for i in range(3) if i != 1], {i: x * i for i in range(2)}, {i % 2 for i in range(5)}


@program(X)
def nested_comprehension_with_cell(x: Tensor) -> Any:
    fs = [lambda t, i=i: t * i for i in range(3)]
    return [f(x) for f in fs], [[i * j for j in range(2)] for i in range(2)]


@program(X, [1, 2], {"k": 0}, {1})
def mutated_arguments(x: Tensor, items: list[Any], d: dict[str, Any], s: set[int]) -> Any:
    s |= {2}
    s.add(3)
    items.append(x + 1)
    items[0] = 5
    d["new"] = x * 2
    d["k"] += 1
    del items[1]
    return items


@program(X, [1])
def aliases_and_cycles(x: Tensor, given: list[Any]) -> Any:
    fresh = [x]
    pair = (fresh, fresh)
    fresh.append(given)
    loop: list[Any] = []
    loop.append(loop)
    return pair[0] is pair[1], pair, len(loop), loop[0] is loop


@program(X)
def iterators(x: Tensor) -> Any:
    it = iter([1, 2, 3])
    first = next(it)
    rest = [x * i for i in it]
    return first, rest, next(it, "end"), list(enumerate("ab", 1)), list(zip([1, 2], "ab")), list(reversed([1, 2]))


@program(X)
def list_grows_while_iterated(x: Tensor) -> Any:
    todo, seen = [3], []
    for n in todo:
        seen.append(x * n)
        if n:
            todo.append(n - 1)
    return seen, todo


# ---- control flow ----


@program(X)
def loops(x: Tensor) -> Any:
    i = 0
    while i < 5:
        i += 1
        if i == 2:
            continue
        if i == 4:
            break
        x = x + i
    else:
        x = x * 100
    for _ in range(2):
        x = x * 2
    else:
        x = x + 1
    return x, i


@program(X, True)
def conditions(x: Tensor, flag: bool) -> Any:
    y = x + 1 if flag and not (x is None) else x
    z = (n := x.shape[0]) + 1
    return y, z, n, 1 < n <= 4, None or 5, "" and 6, x.shape[0] == 4 or 1 / 0


@program(X, 2)
def match_statement(x: Tensor, n: int) -> Any:
    match n:
        case 1:
            return x
        case 2 | 3:
            return x * 2
        case _:
            return x * 3


@program(X)
def try_without_exception(x: Tensor) -> Any:
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        y = y * 2
    finally:
        y = y + 3
    return y


@program(X)
def assertion_on_shape(x: Tensor) -> Any:
    assert x.shape[0] == 4, "four rows"
    return x * 2


@program(X, [])
def generators(x: Tensor, log: list[Any]) -> Any:
    def inner(n: int) -> Any:
        got = yield n
        log.append(got)
        return n * 10

    def outer(n: int) -> Any:
        result = yield from inner(n)
        yield result
        yield from [x, x + 1]

    g = outer(2)
    first = next(g)
    rest = list(g)
    h = inner(5)
    next(h)
    try:
        done = next(h, "end")
    finally:
        log.append("finally")
    return first, rest, done, sum(x * i for i in range(3)), any(i > 1 for i in (0, 2)), tuple(i for i in "ab"), log


# ---- text, numbers ----


@program(X, 3, "b")
def texts(x: Tensor, n: int, s: str) -> Any:
    return f"{n:>5}|{s!r}|{x.shape[0]}|{1.5:.2f}", "a,b".split(","), s.upper(), "%d" % n, "{}".format(n), s * 2, str(n)


@program(X)
def numbers(x: Tensor) -> Any:
    return (
        math.sqrt(x.size(-1)) * x,
        divmod(7, 2),
        abs(-2),
        round(2.6),
        max(1, 2),
        min([3, 4]),
        pow(2, 5),
        -7 // 2,
        7 % -3,
    )


@program(X)
def builtins_on_constants(x: Tensor) -> Any:
    return (
        isinstance(x, Tensor), isinstance(1, (int, str)), hasattr(x, "shape"), getattr(x, "nope", 4), len(x), callable(len),
        any([0, 1]), all([]), int("3"), float(2), bool([]), type(3) is int, list("ab"), tuple([1]), sum([1, 2], 3),
    )  # fmt: skip


# ---- tensors ----


@program(X)
def tensor_facts(x: Tensor) -> Any:
    return x.shape, x.dtype, x.device, x.ndim, x.size(), x.size(1), x.numel(), x.stride(), x.is_contiguous(), x.dim()


@program(X, Y)
def operators(x: Tensor, y: Tensor) -> Any:
    return (
        x + y,
        x - 1,
        2 * x,
        1 / (y + 10),
        x**2,
        -x,
        x @ y.T,
        x > y,
        (x > 0) & (y > 0),
        ~(x > 0),
        abs(x),
        x // 2,
        x % 3,
    )


@program(X)
def in_place(x: Tensor) -> Any:
    x.add_(1)
    view = x.view(-1)
    view[0] = 5
    x += 2
    x[1:2] *= 3
    y = x * 2
    y.relu_()
    y[y.shape[0] - 1, :2] = 7
    return view, y


@program(X)
def in_place_on_a_number(x: Tensor) -> Any:
    total = 0
    total += x
    scale = 2.0
    scale *= x
    return total, scale


@program(X)
def methods_and_functions(x: Tensor) -> Any:
    return (
        x.softmax(-1), F.gelu(x), torch.cat([x, x], dim=0), torch.stack((x, x)), x.transpose(0, 1), x.mean(dim=-1, keepdim=True),
        torch.where(x > 0, x, torch.zeros_like(x)), F.layer_norm(x, (8,)), x.reshape(2, -1), torch.arange(3), x.new_zeros(2),
        torch.tensor([1.0, 2.0]), x.to(torch.float64), x.max(dim=0), torch.topk(x, 2).values, x.split(2), x.T, x.mT, x.sum(),
    )  # fmt: skip


@program(X)
def unpacking_a_tensor(x: Tensor) -> Any:
    a, b, c, d = x
    return a + b, [row * 2 for row in x], [*zip(c, d)][0]


@program(X, [1])
def identity(x: Tensor, items: list[Any]) -> Any:
    y = x + 1
    return x, x, items, items, y, y


@program(X)
def unbound_method(x: Tensor) -> Any:
    return torch.Tensor.add(x, 1), operator.mul(x, 2), operator.itemgetter


# ---- objects ----


class Accumulator:
    """A user class with most of what classes have."""

    unit = 3

    def __init__(self, start: Any) -> None:
        self.total = start

    @property
    def double(self) -> Any:
        return self.total * 2

    @staticmethod
    def one() -> int:
        return 1

    @classmethod
    def make(cls, start: Any) -> Accumulator:
        return cls(start)

    def __add__(self, other: Any) -> Accumulator:
        return Accumulator(self.total + (other.total if isinstance(other, Accumulator) else other))

    def __call__(self, k: Any) -> Accumulator:
        self.total = self.total * k
        return self

    def __getitem__(self, key: int) -> Any:
        return self.total + key

    def __len__(self) -> int:
        return 2


# so that `assert_same` compares attributes
register_pytree_node(Accumulator, lambda a: (list(vars(a).values()), tuple(vars(a))), lambda values, names: None)


class Child(Accumulator):
    def __init__(self, start: Any) -> None:
        super().__init__(start)
        self.extra = 1

    def __add__(self, other: Any) -> Accumulator:
        return super().__add__(other + self.extra)


@program(X)
def objects_made_inside(x: Tensor) -> Any:
    a = Accumulator(x) + Accumulator.make(2)
    b = Child(x) + 5
    return a(3).double, a[1], len(a), Accumulator.one(), a.unit, b.total, bool(a)


@program(X, Accumulator(torch.ones(8)))
def object_from_outside(x: Tensor, acc: Accumulator) -> Any:
    acc.total = acc.total + x.sum(0)
    acc.seen = [x]
    return acc(2).double, acc.total


@program(X)
def attribute_functions(x: Tensor) -> Any:
    a = Accumulator(x)
    setattr(a, "k", 2)
    return hasattr(a, "k"), hasattr(a, "zz"), getattr(a, "k") * x, getattr(a, "zz", None)


class Mapped:
    """Reads attributes through a map, as configuration classes of well-known libraries do."""

    names = {"width": "hidden_size"}

    def __init__(self) -> None:
        self.hidden_size = 3

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))


@program(X)
def attributes_through_getattribute(x: Tensor) -> Any:
    m = Mapped()
    return x * m.width, m.hidden_size, getattr(m, "nothing", 4), hasattr(m, "width"), hasattr(m, "depth")


# ---- grad mode ----


@program(X.clone().requires_grad_())
def no_grad_blocks(x: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 3
        w = x + 1
    return y.requires_grad, z.requires_grad, w.detach(), y, (x * 2).sum().detach(), torch.is_grad_enabled()


@torch.no_grad()
def without_gradient(x: Tensor) -> Tensor:
    return x * 2


@program(X.clone().requires_grad_())
def no_grad_decorator(x: Tensor) -> Any:
    return without_gradient(x), (x * 2).detach()


class UserContext:
    def __init__(self) -> None:
        self.log: list[str] = []

    def __enter__(self) -> int:
        self.log.append("in")
        return 3

    def __exit__(self, *error: Any) -> None:
        self.log.append("out")


@program(X)
def user_context_manager(x: Tensor) -> Any:
    manager = UserContext()
    with manager as k:
        y = x * k
    return y, manager.log


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]


def test_identities_are_those_of_eager() -> None:
    import minicompile

    compiled = minicompile.compile(identity, backend="eager")
    x, items = X.clone(), [1]
    first, second, one, other, made, again = compiled(x, items)
    assert first is x and second is x and one is items and other is items and made is again


COUNTER = 0
SCALES = [2.0]


def test_globals_are_read_written_and_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    import minicompile

    def fn(x: Tensor) -> Tensor:
        global COUNTER
        COUNTER = COUNTER + 1
        return x * SCALES[0] + COUNTER

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    monkeypatch.setitem(globals(), "COUNTER", 0)
    assert torch.equal(compiled(X), X * 2.0 + 1)
    assert COUNTER == 1
    assert torch.equal(compiled(X), X * 2.0 + 2)
    monkeypatch.setitem(SCALES, 0, 3.0) if isinstance(SCALES, dict) else SCALES.__setitem__(0, 3.0)
    assert torch.equal(compiled(X), X * 3.0 + 3)
    SCALES[0] = 2.0
