"""Objects of classes that derive from builtin containers: contents and attributes, methods of the class and of the
base, as in eager, and in one graph where nothing is asked that only the real object knows."""

# ruff: noqa: E501, E741 (the programs are what users write)

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile

from .conftest import Counting, assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


class Noted(dict):
    """Every set item is an attribute as well, and is noted."""

    note = "class"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.log: list[Any] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.log.append(key)
        setattr(self, str(key), value)

    def __missing__(self, key: Any) -> Any:
        return ("missing", key)

    def total(self) -> Any:
        return sum(self.values())


class Output(OrderedDict):
    """As in libraries of models: an ordered dict that is a tuple and an object, too."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key: Any) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


@dataclass
class Pair(Output):
    first: Any = None
    second: Any = None
    third: Any = None


class Stack(list):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.pushed = 0

    def append(self, item: Any) -> None:
        self.pushed += 1
        super().append(item)

    def top(self) -> Any:
        return self[-1]


class Point(tuple):
    def __new__(cls, *items: Any) -> Any:
        made = super().__new__(cls, items)
        made.name = "p"
        return made

    def __getnewargs__(self) -> Any:
        return tuple(self)

    @property
    def x(self) -> Any:
        return self[0]

    def __add__(self, other: Any) -> Any:
        return Point(*(a + b for a, b in zip(self, other, strict=True)))


class Named(namedtuple("Named", "a b")):  # noqa: SLOT002
    def total(self) -> Any:
        return self.a + self.b


class Loud(list):
    """Reads and iteration of its own; equality with everything."""

    def __getitem__(self, index: Any) -> Any:
        return ("got", list.__getitem__(self, index))

    def __iter__(self) -> Any:
        return iter(("my", "own"))

    def __eq__(self, other: Any) -> bool:
        return True

    def __len__(self) -> int:
        return 7

    def __contains__(self, item: Any) -> bool:
        return item == "it"


class Tags(set):
    def add(self, item: Any) -> None:
        super().add(("tag", item))


class Counts(defaultdict):
    pass


class Plain(dict):
    pass


class SlottedList(list):
    __slots__ = ("tag",)


# ---- made in the frame ----


@program(X)
def made_and_returned(x: Tensor) -> Any:
    d = Noted(a=x, b=2)
    d["c"] = x + 1
    d.note = "own"
    return d, d.log, d.c, d["zz"], d.note, Noted.note, len(d), "a" in d, list(d), d.get("q", 5), d.get("a") is x


@program(X)
def model_output(x: Tensor) -> Any:
    o = Pair(x + 1, third=(x, x * 2))
    o.second = x - 1
    o["second"] = x - 2
    return o, o[0], o["third"][1], o[1:], o.to_tuple(), list(o.keys()), len(o), o.second, is_dataclass(o), o == o, [f.name for f in fields(o)]


@program(X)
def model_output_that_gains_an_item(x: Tensor) -> Any:
    o = Pair(x)
    o["second"] = x + 1
    o.third = x + 2
    return o, o.third, list(o), Pair(), bool(Pair()), Pair(x)[0] is x


@program(X)
def lists_of_a_class(x: Tensor) -> Any:
    s = Stack([1, 2])
    s.append(x)
    s.extend([x + 1])
    s += [4]
    s[0] = 9
    del s[1]
    t = s[1:]
    return s, s.pushed, s.top(), type(t) is list, s + [1], type(s + [1]) is list, len(s), s == [1], 9 in s, s.index(9), s * 2, isinstance(s, list)


@program(X)
def tuples_of_a_class(x: Tensor) -> Any:
    p = Point(1, x) + Point(2, x)
    a, b = p
    return p, p.name, p.x, a, b, p[0], len(p), p[:1], type(p[:1]) is tuple, isinstance(p, tuple), Point(1, 2) == (1, 2), (1, 2) == Point(1, 2), Point(1, 2) < (1, 3)


@program(X)
def named_tuples_of_a_class(x: Tensor) -> Any:
    n = Named(1, b=x)
    return n, n.total(), n.a, n[1], n._replace(a=4), type(n).__name__, tuple(n)


@program(X)
def sets_and_default_dicts(x: Tensor) -> Any:
    t = Tags([1])
    t.add(2)
    c = Counts(list, a=[1])
    c["b"].append(x)
    return t, ("tag", 2) in t, len(t), c, c.default_factory is list, c["a"]


@program(X)
def the_class_has_its_say(x: Tensor) -> Any:
    l = Loud([1, 2])
    return l[0], list(l), [*l], l == 5, len(l), "it" in l, 1 in l, list.__len__(l), list.__getitem__(l, 1), [i for i in list.__iter__(l)], x


@program(X)
def unbound_methods_of_the_base(x: Tensor) -> Any:
    d = Noted()
    dict.__setitem__(d, "a", x)
    dict.update(d, b=1)
    dict.setdefault(d, "c", [x])
    return d, d.log, dict.get(d, "a") is x, hasattr(d, "a"), dict.__contains__(d, "b"), {**d}, dict(d), dict.pop(d, "b"), list(dict.items(d))


@program(X)
def unpacked_and_copied(x: Tensor) -> Any:
    def takes(**named: Any) -> Any:
        return named

    d = Plain(a=x, b=2)
    return takes(**d), {**d, "c": 1}, dict(d), list(d.items()), dict(d, z=1), d | {"q": 1}, type(d | {}) is dict, d == {"a": x, "b": 2}


@program(X)
def aliases_and_cycles(x: Tensor) -> Any:
    d, s = Plain(), Stack()
    d["self"], d["s"] = d, s
    s.append(d)
    s.extra = s
    return d["self"] is d, s[0]["s"] is s, s.extra is s, x, type(d)


@program(X)
def slots_of_a_list(x: Tensor) -> Any:
    s = SlottedList([x])
    s.tag = 3
    return s, s.tag, hasattr(s, "other"), [v.sum() for v in s]


@program(X)
def classes_made_inside(x: Tensor) -> Any:
    class Inner(dict):
        def __getattr__(self, name: str) -> Any:
            try:
                return self[name]
            except KeyError as error:
                raise AttributeError(name) from error

        def __setattr__(self, name: str, value: Any) -> None:
            self[name] = value

    i = Inner(a=x)
    i.b = 2
    return i.a + i.b, dict(i), hasattr(i, "zz"), i["b"]


@program(X)
def torch_functions_take_contents(x: Tensor) -> Any:
    return torch.cat(Stack([x, x])), torch.stack(Point(x, x)), x.reshape(Point(4, 2)), torch.zeros(Stack([2, 1]))


@program(X)
def order_counts_for_ordered_ones(x: Tensor) -> Any:
    a, b = OrderedDict(p=1, q=2), OrderedDict(q=2, p=1)
    return a == b, a == dict(b), Pair(1, 2) == Pair(1, 2), Output(p=1, q=2) == b, Output(p=1, q=2) == a, x


class Dotted(dict):
    """An idiom of many programs."""

    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__
    fetch = dict.get
    sized = dict.__len__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


class Absent(dict):
    __getattr__ = dict.get


class Negating(OrderedDict):
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, -value)


class Renamed(OrderedDict):
    update = dict.update
    __len__ = dict.__sizeof__


@program(X, Dotted(z=1))
def methods_under_other_names(x: Tensor, d: Any) -> Any:
    d.a = x
    d.b = d.a + 1
    del d.a
    object.__setattr__(d, "real", 4)
    m = Absent(k=x)
    return d, d.b, "a" in d, d.fetch("q", 3), d.sized(), vars(d), d.real, m.k, m.other, hasattr(m, "anything"), hasattr(d, "__nope__")


# ---- from outside ----


def noted(**items: Any) -> Noted:
    made = Noted(items)
    made.extra = [1]
    return made


@program(X, noted(a=X + 1, b=2))
def changed_dict_from_outside(x: Tensor, d: Any) -> Any:
    d["c"] = d["a"] + x
    d.extra.append(3)
    d.note = "set"
    del d["b"]
    return d, d.total(), d["nope"], d.log, list(d), len(d)


@program(X, Pair(X, second=(X + 1, X + 2)))
def model_output_from_outside(x: Tensor, o: Any) -> Any:
    o.first = o[0] + x
    o["third"] = o.second[1] * 2
    return o, o.to_tuple(), o[:2], list(o.values())


@program(X, Stack([1, X, 3]))
def changed_list_from_outside(x: Tensor, s: Any) -> Any:
    s.append(x + s[1])
    s.extend((5, 6))
    s[0] = 7
    del s[2]
    s.insert(1, "i")
    s.reverse()
    popped = s.pop()
    return s, s.pushed, popped, [v for v in s], s.top()


@program(X, Point(X, 2), Tags([1, 2]), Counts(int, a=1), SlottedList([4]))
def others_from_outside(x: Tensor, p: Any, t: Any, c: Any, s: Any) -> Any:
    t.add(3)
    c["n"] += 1
    s.tag = 5
    return p.x + x, p.name, p[1], len(t), 1 in t, c["n"], s.tag, s[0]


@program(X, [Loud([1])])
def iterated_from_outside(x: Tensor, box: Any) -> Any:
    l = box[0]
    list.append(l, x)
    return list(l), l[0], list.__len__(l), l


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]


# ---- breaks, guards, order ----

BREAKS = Programs()


@BREAKS.program(X, Pair(X, 2))
def methods_that_ask_the_class(x: Tensor, o: Any) -> Any:
    o.move_to_end("first")
    popped = OrderedDict.pop(o, "second")
    return o, popped, x + 1, repr(Noted(a=1)), Stack([3, 1]).copy(), sorted(Stack([3, 1])), UserDict(a=1)["a"]


@BREAKS.program(X, Negating(a=1))
def what_an_ordered_dict_asks_its_class(x: Tensor, d: Any) -> Any:
    d |= {"q": 5}
    d.update(b=2)
    d.setdefault("c", 3)
    r = Renamed(a=1)
    return d, d | {"z": 1}, x + 1, len(r) > 40, [k for k in Absent(a=1)]


@BREAKS.program(X, noted(a=X), Stack([X]))
def across_a_break(x: Tensor, d: Any, s: Any) -> Any:
    made = Pair(x, d["a"])
    s.append(made)
    print(len(s), list(made))
    made["third"] = x * 2
    s.pushed += 1
    return s, made, s[1] is made, d


@BREAKS.program(X)
def iterator_over_one_across_a_break(x: Tensor) -> Any:
    it, total = iter(Stack([x, x + 1, x + 2])), x
    pairs = Pair(x, x + 1).items()
    for value in it:
        print("next")
        total = total + value
    return total, list(pairs), [k for k in Noted(a=1)]


@pytest.mark.parametrize("name", BREAKS)
def test_with_breaks_like_eager(name: str) -> None:
    fn, args = BREAKS[name]
    assert_like_eager(fn, args, eager=True)


def test_what_was_used_is_guarded() -> None:
    def fn(x: Tensor, d: Any) -> Any:
        return x + d["a"] + len(d) + d.scale

    def made(scale: int = 1, kind: Any = Plain, **items: Any) -> Any:
        result = kind(items)
        result.scale = scale
        return result

    backend = Counting()
    compiled = minicompile.compile(fn, backend=backend, dynamic=False)
    calls = [
        made(a=1), made(a=2), made(a=1, b=2), made(b=2, a=1), made(scale=3, a=1), made(kind=Noted, a=1), made(a=X),
    ]  # fmt: skip
    for d in calls:
        for _ in range(2):
            torch.testing.assert_close(compiled(X, d), fn(X, d))
    assert len(backend.graphs) == len(calls)


def test_a_method_patched_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: Tensor, s: Any) -> Any:
        return x + s.top(), s[0]

    compiled = minicompile.compile(fn, backend="eager")
    s = Stack([1, 2])
    assert compiled(X, s)[1] == 1
    monkeypatch.setattr(Stack, "top", lambda self: 40)
    torch.testing.assert_close(compiled(X, s)[0], X + 40)
    monkeypatch.setattr(Stack, "__getitem__", lambda self, key: "patched", raising=False)
    assert compiled(X, s)[1] == "patched"
    monkeypatch.setattr(Stack, "__len__", lambda self: 4, raising=False)
    assert minicompile.compile(lambda x, s: (x, len(s)), backend="eager")(X, s)[1] == 4


def test_a_special_method_set_in_the_frame_counts() -> None:
    def fn(x: Tensor) -> Any:
        class Late(list):
            pass

        class Object:
            pass

        a, b = Late([1]), Object()
        Late.__len__ = Object.__len__ = lambda self: 5  # type: ignore[attr-defined]
        return x + len(a) + len(b), bool(b)

    assert_like_eager(fn, (X,), eager=True)


class Patched(list):
    pass


def test_a_special_method_that_the_frame_sets_on_a_class_from_outside() -> None:
    def fn(x: Tensor, s: Any) -> Any:
        before = len(s)
        Patched.__len__ = lambda self: 5  # type: ignore[method-assign]
        return x + len(s), before

    try:
        result = minicompile.compile(fn, backend="eager")(X, Patched([1]))
    finally:
        del Patched.__len__
    torch.testing.assert_close(result[0], X + 5)
    assert result[1] == 1


def test_nothing_is_done_when_a_later_operation_raises() -> None:
    def fn(x: Tensor, d: Any, s: Any) -> Any:
        d["k"] = x
        s.append(1)
        return x @ x

    d, s = noted(a=1), Stack([1])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        minicompile.compile(fn, backend="eager")(X, d, s)
    assert (d["k"] is X, list(s), s.pushed) == (True, [1, 1], 1)
