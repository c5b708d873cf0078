"""Classes made inside, and everything that classes and their objects can do: one graph, as in eager."""

# ruff: noqa: E501, UP003, B009, B010, B018, B024, B903, SLOT000, RUF012, UP037 (the programs are what users write)

from __future__ import annotations

import abc
import copy
import dataclasses
import enum
import functools
import operator
from collections import namedtuple
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


# ---- made inside ----


@program(X, [])
def class_inside(x: Tensor, log: list[Any]) -> Any:
    scale = 3

    class Scaler:
        """With a cell, a class attribute, a default, a method of each kind."""

        unit = 2
        shared = [x]
        double = unit * 2

        def __init__(self, k: int = 4) -> None:
            self.k = k
            log.append("init")

        def __call__(self, t: Tensor) -> Tensor:
            return t * self.k * scale * self.unit

        @property
        def twice(self) -> int:
            return self.k * 2

        @twice.setter
        def twice(self, value: int) -> None:
            self.k = value // 2

        @staticmethod
        def one() -> int:
            return 1

        @classmethod
        def make(cls, k: int) -> Any:
            return cls(k)

    a, b = Scaler(), Scaler.make(5)
    a.twice = 20
    return a(x), b.twice, Scaler.one(), b.one(), Scaler.unit, a.shared[0], type(b) is Scaler, isinstance(a, Scaler), Scaler.double, Scaler.__name__


@program(X)
def inheritance_inside(x: Tensor) -> Any:
    class Base:
        def __init__(self, k: int) -> None:
            self.k = k

        def run(self, t: Tensor) -> Tensor:
            return t * self.k

    class Mixin:
        def run(self, t: Tensor) -> Tensor:
            return super().run(t) + 1  # type: ignore[misc]

    class Child(Mixin, Base):
        def __init__(self) -> None:
            super().__init__(7)

        def run(self, t: Tensor) -> Tensor:
            return super().run(t) * 10

    c = Child()
    return c.run(x), issubclass(Child, Base), isinstance(c, Mixin), [k.__name__ for k in Child.__mro__]


def same_attributes(self: Any, other: Any) -> bool:
    return type(self) is type(other) and vars(self) == vars(other)


class Outside:
    count = 0
    __eq__ = same_attributes

    def __init__(self, k: int) -> None:
        self.k = k

    def scaled(self, t: Tensor) -> Tensor:
        return t * self.k


@program(X)
def subclass_of_a_class_from_outside(x: Tensor) -> Any:
    class Sub(Outside):
        def scaled(self, t: Tensor) -> Tensor:
            return super().scaled(t) + self.count

    return Sub(3).scaled(x), Outside(2).scaled(x)


@program(X)
def exception_class_inside(x: Tensor) -> Any:
    class Problem(Exception):
        def __init__(self, code: int) -> None:
            super().__init__("problem", code)
            self.code = code

    try:
        raise Problem(4)
    except Problem as problem:
        return x * problem.code, str(problem), problem.args


@program(X)
def dataclass_inside(x: Tensor) -> Any:
    @dataclasses.dataclass
    class Box:
        weight: Any
        scale: int = 2

        def apply(self) -> Any:
            return self.weight * self.scale

    return Box(x).apply(), Box(x, scale=5).apply(), Box(1, 2) == Box(1, 2), Box(1, 2) == Box(1, 3)


@program(X)
def class_attributes_set_later(x: Tensor) -> Any:
    class Holder:
        pass

    h = Holder()
    Holder.k = 3  # type: ignore[attr-defined]
    Holder.method = lambda self, t: t * self.k  # type: ignore[attr-defined]
    before = hasattr(h, "zz")
    Holder.zz = 1  # type: ignore[attr-defined]
    return h.method(x), before, hasattr(h, "zz"), h.zz  # type: ignore[attr-defined]


@program(X)
def operators_inside(x: Tensor) -> Any:
    class Num:
        def __init__(self, v: Any) -> None:
            self.v = v

        def __add__(self, other: Any) -> Any:
            return Num(self.v + (other.v if isinstance(other, Num) else other))

        __radd__ = __add__

        def __eq__(self, other: Any) -> bool:
            return self.v == other.v

        def __lt__(self, other: Any) -> bool:
            return self.v < other.v

        def __neg__(self) -> Any:
            return Num(-self.v)

        def __contains__(self, item: Any) -> bool:
            return item == self.v

        def __getitem__(self, index: Any) -> Any:
            return (self.v, index)

        def __bool__(self) -> bool:
            return self.v != 0

        def __hash__(self) -> int:
            return 3

        def __str__(self) -> str:
            return f"<{self.v}>"

        def __iadd__(self, other: Any) -> Any:
            self.v = self.v + other
            return self

        def __matmul__(self, other: Any) -> Any:
            return self.v @ other

        def __len__(self) -> int:
            return 5

        def __index__(self) -> int:
            return 1

    a, b = Num(1), Num(2)
    a += 4
    return (
        (a + b).v, (1 + b).v, a == Num(5), a != b, b < a, (-a).v, 5 in a, a[2], a[1:2], bool(Num(0)), str(a), f"{b}",
        sum([a, b], Num(0)).v, sorted([a, b])[0].v, min(a, b).v, Num(x) @ x.T, len(a), not a, max([b, a]).v,
    )  # fmt: skip


@program(X)
def objects_of_a_class_inside_go_out_and_in(x: Tensor) -> Any:
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def __enter__(self) -> Any:
            self.n += 1
            return self

        def __exit__(self, *error: Any) -> None:
            self.n += 10

        def __iter__(self) -> Any:
            yield from range(self.n)

    with Counter() as c:
        x = x + c.n
    return x, c.n, list(c), [n for n in c][-1]


# ---- from outside ----


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


@program(X)
def slots(x: Tensor) -> Any:
    s = Slotted(x)
    s.b = 2
    s.a = s.a * s.b
    missing = False
    try:
        s.c = 1  # type: ignore[attr-defined]
    except AttributeError:
        missing = True
    del s.b
    return s.a, hasattr(s, "b"), missing


class Clamped:
    """A data descriptor."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self if owner is None else getattr(owner, self.name, 0)

    def __set__(self, owner: Any, value: Any) -> None:
        setattr(owner, self.name, min(value, 10))


class Lazily:
    """A descriptor without `__set__`."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    def __get__(self, owner: Any, cls: Any = None) -> Any:
        return self.fn(owner)


class Described:
    level = Clamped()

    def __init__(self, level: int) -> None:
        self.level = level

    @Lazily
    def doubled(self) -> int:
        return self.level * 2

    @functools.cached_property
    def cached(self) -> int:
        return self.level + 1

    @property
    def both(self) -> int:
        return self.level

    @both.setter
    def both(self, value: int) -> None:
        self.level = value

    @both.deleter
    def both(self) -> None:
        self.level = -1


@program(X)
def descriptors(x: Tensor) -> Any:
    d = Described(50)
    first = d.level, d.doubled, d.cached
    d.both = 7
    second = d.level, d.cached, d.both
    del d.both
    return x * d.level, first, second


class Dynamic:
    def __init__(self) -> None:
        self.store = {"a": 1}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["store"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "store":
            super().__setattr__(name, value)
        else:
            self.store[name] = value

    def __delattr__(self, name: str) -> None:
        del self.store[name]


@program(X)
def attribute_protocol(x: Tensor) -> Any:
    d = Dynamic()
    d.b = x
    d.c = 2
    del d.c
    return d.b * d.a, getattr(d, "zz", 5), hasattr(d, "c"), hasattr(d, "a"), sorted(d.store)


@dataclasses.dataclass
class Config:
    width: int
    depth: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)
    kind: ClassVar[str] = "c"

    def __post_init__(self) -> None:
        self.area = self.width * self.depth


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: int = 3


@program(X, Config(3))
def data_classes(x: Tensor, given: Config) -> Any:
    c = Config(2, depth=4)
    c.tags.append("t")
    given.width += 1
    changed = dataclasses.replace(c, width=9)
    error = ""
    try:
        Frozen(1).a = 2  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        error = "frozen"
    return x * c.area * given.width, c.tags, changed.width, changed.tags is c.tags, Frozen(1) < Frozen(2), Frozen(1) == Frozen(1, 3), error, [f.name for f in dataclasses.fields(c)], Config.kind


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def scale(self) -> int:
        return self.value * 10


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Perm(enum.Flag):
    R = 1
    W = 2


@program(X, Color.BLUE, Level.HIGH)
def enums(x: Tensor, color: Color, level: Level) -> Any:
    by = {Color.RED: 1, Color.BLUE: 2}
    return (
        x * color.value, color is Color.BLUE, color == Color.RED, Color["RED"].name, Color(2), [c.name for c in Color],
        level > Level.LOW, level + 1, color.scale, by[color], Perm.R | Perm.W, Perm.R in (Perm.R | Perm.W), color in by, len(Color), isinstance(color, Color), str(color),
    )  # fmt: skip


class Pair(NamedTuple):
    left: Any
    right: int = 4

    def total(self) -> Any:
        return self.left * self.right


Triple = namedtuple("Triple", "a b c", defaults=[3])


@program(X, Pair(2))
def named_tuples(x: Tensor, given: Pair) -> Any:
    p = Pair(x)
    a, b = p
    return p.total(), a, b, p[1], given.total(), Triple(1, 2), Triple(1, 2, c=5)._replace(a=9), Pair._fields, p._asdict()["right"], Triple._make([1, 2, 3]), isinstance(p, tuple), given == (2, 4), len(p), p.left is x


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> int: ...

    def describe(self) -> str:
        return f"{type(self).__name__} {self.area()}"


class Square(Shape):
    __eq__ = same_attributes

    def __init__(self, side: int) -> None:
        self.side = side

    def area(self) -> int:
        return self.side**2


@program(X, Square(3))
def abstract_classes(x: Tensor, given: Shape) -> Any:
    error = ""
    try:
        Shape()  # type: ignore[abstract]
    except TypeError:
        error = "abstract"
    return x * given.area(), Square(2).describe(), error, isinstance(given, Shape)


class Meta(type):
    def __getitem__(cls, key: int) -> int:
        return key * 2

    @property
    def label(cls) -> str:
        return cls.__name__


class WithMeta(metaclass=Meta):
    k = 3


@program(X)
def metaclasses(x: Tensor) -> Any:
    return x * WithMeta.k, WithMeta[4], WithMeta.label, WithMeta().k


class Named:
    kind = 3

    def __new__(cls, *args: Any) -> Any:
        made = super().__new__(cls)
        made.k = cls.kind
        return made

    def __init__(self, name: str) -> None:
        self.name = name


class Other:
    def __new__(cls, k: int) -> Any:
        return k * 2


@program(X)
def own_new(x: Tensor) -> Any:
    n = Named("abc")
    return x * len(n.name), n.k, Other(4)


@functools.total_ordering
class Version:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: Any) -> bool:
        return self.n == other.n

    def __lt__(self, other: Any) -> bool:
        return self.n < other.n


@program(X)
def total_ordering(x: Tensor) -> Any:
    a, b = Version(1), Version(2)
    return x, a <= b, a > b, a >= b, a == b, max(a, b).n


@program(X)
def copies(x: Tensor) -> Any:
    items = [x, [1, 2], {"a": x}]
    shallow, deep = copy.copy(items), copy.deepcopy([1, [2, {"k": (3, 4)}]])
    shallow.append(1)
    d = copy.copy({"a": [1]})
    o = Outside(3)
    p = copy.copy(o)
    p.k = 5
    return len(items), shallow[1] is items[1], deep, d, o.scaled(x), p.scaled(x), copy.deepcopy(5), copy.deepcopy("s")


@program(X)
def bound_and_unbound_methods(x: Tensor) -> Any:
    o = Outside(3)
    m = o.scaled
    f = Outside.scaled
    g = operator.methodcaller("scaled", x)
    return m(x), f(o, x), m.__self__ is o, m.__func__ is f, m.__name__, g(o), operator.attrgetter("k")(o), functools.partial(f, o)(x)


def documented(x: Tensor, k: int = 3, *, scale: float = 2.0) -> Tensor:
    """The text."""
    return x * k * scale


documented.level = 4  # type: ignore[attr-defined]


@program(X)
def function_attributes(x: Tensor) -> Any:
    def inner(t: Tensor, a: int = 5) -> Tensor:
        return t * a

    inner.mark = 1  # type: ignore[attr-defined]
    code = documented.__code__
    return (
        documented(x), documented.__name__, documented.__doc__, documented.__defaults__, documented.__kwdefaults__, documented.level,  # type: ignore[attr-defined]
        code.co_argcount, code.co_varnames[:2], inner.__name__, inner.mark, hasattr(inner, "zz"), inner.__defaults__, documented.__module__ == __name__,  # type: ignore[attr-defined]
        inner.__code__.co_argcount, callable(inner), inner.__doc__, documented.__qualname__,
    )  # fmt: skip


@program(X, Outside(4))
def attributes_by_name(x: Tensor, o: Outside) -> Any:
    for name in ("k", "extra"):
        setattr(o, name, getattr(o, name, 1) + 1)
    names = sorted(vars(o))
    del o.extra  # type: ignore[attr-defined]
    return x * o.k, names, hasattr(o, "extra"), "k" in o.__dict__, o.__class__.__name__


@program(X, Outside(4))
def type_and_class_checks(x: Tensor, o: Outside) -> Any:
    return (
        type(o).__name__, type(o) is Outside, isinstance(o, (int, Outside)), type(x) is Tensor, isinstance(x, torch.nn.Parameter),
        isinstance([], list), isinstance(True, int), issubclass(bool, int), type(o)(7).k, isinstance(o, object), isinstance(1, int | str), type(3).__name__,
        isinstance(o.scaled, type(o.scaled)), callable(o), type(None) is type(None),
    )  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]
