"""Changes that are easily overlooked while tracing: a container that grows while it is iterated, a leaf that is made
inside, memory that is addressed from its start."""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from tests.support import assert_same

X = torch.arange(6.0).reshape(2, 3)


def grows(x: Tensor, s: set[int]) -> Any:
    try:
        for v in s:
            s.add(v + 10)
            x = x * v
    except RuntimeError as error:
        return str(error), x
    return x


def grows_uncaught(x: Tensor, s: set[int]) -> Any:
    for v in s:
        s.add(v + 10)
    return x


def shrinks_after_a_break(x: Tensor, s: set[int]) -> Any:
    try:
        for v in s:
            torch._dynamo.graph_break()
            s.discard(v)
            x = x + v
    except RuntimeError:
        return x * 100
    return x


def own_set_grows(x: Tensor, s: set[int]) -> Any:
    mine = {1, 2}
    try:
        for v in mine:
            mine.add(v + 10)
    except RuntimeError as error:
        return str(error), x
    return x


def other_elements(x: Tensor, s: set[int]) -> Any:
    for v in s:
        if len(s) < 5 and v < 40:
            s.add(v + 10)
            s.discard(v)
        x = x * v
    return x


def grows_before_the_last(x: Tensor, s: set[int]) -> Any:
    for v in s:
        s.add(v + 10)
        break
    return [v * x for v in sorted(s)], next(iter({7}))


@pytest.mark.parametrize("start", [{1}, {1, 2}], ids=len)
@pytest.mark.parametrize(
    "fn", [grows, grows_uncaught, shrinks_after_a_break, own_set_grows, other_elements, grows_before_the_last]
)
def test_sets_that_change_while_they_are_iterated(fn: Callable[..., Any], start: set[int]) -> None:
    compiled = minicompile.compile(fn)
    for _ in range(2):
        results = []
        for call in (compiled, fn):
            s = set(start)
            try:
                result = call(X, s)
            except RuntimeError as error:
                result = str(error)
            results.append((result, sorted(s)))
        assert_same(*results)


LEAVES: dict[str, Callable[[Tensor], Tensor]] = {
    "zeros": lambda x: torch.zeros(3, requires_grad=True),
    "tensor": lambda x: torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "new_ones": lambda x: x.new_ones(3, requires_grad=True),
    "ones_like": lambda x: torch.ones_like(x, requires_grad=True),
    "arange": lambda x: torch.arange(3.0, requires_grad=True),
    "full": lambda x: torch.full((3,), 2.0, requires_grad=True),
}


@pytest.mark.parametrize("make", LEAVES)
def test_leaves_made_inside_collect_gradients(make: str) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = LEAVES[make](x)
        return (leaf * x).sin(), leaf

    results = []
    for call in (minicompile.compile(fn), fn):
        result, leaf = call(X)
        result.sum().backward()
        results.append((result, leaf, leaf.grad, leaf.is_leaf))
    assert_same(*results)


ADDRESSES: dict[str, Callable[[Tensor], Any]] = {
    "start": lambda x: x.as_strided((2, 2), (2, 1), 0),
    "place": lambda x: torch.as_strided(x, (2, 2), (2, 1), 5) + 1,
    "of a view": lambda x: x[1].as_strided((2,), (1,), storage_offset=1),
    "of a result": lambda x: (x * 1).as_strided((2,), (1,), 1),
    "of a view of a result": lambda x: (x + 1)[1].as_strided((2,), (1,), 4) * 2,
    "without a place": lambda x: x.as_strided((2, 2), (2, 1)) * 2,
    "written": lambda x: x.as_strided((2,), (1,), 3).add_(10),
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_memory_is_addressed_as_in_eager(address: str) -> None:
    fn = ADDRESSES[address]
    compiled = minicompile.compile(fn)
    for start in (0, 4, 6, 0):
        mine, eagers = (torch.arange(24.0) for _ in range(2))
        assert_same(compiled(mine[start : start + 6].view(2, 3)), fn(eagers[start : start + 6].view(2, 3)))
        assert_same(mine, eagers)


class Plain:
    def __init__(self) -> None:
        self.q = 2.0


class Derived(Plain):
    def __len__(self) -> int:
        return 3


def reads(x: Tensor, o: Any) -> Any:
    return x * o.q if o else -x


def makes(x: Tensor, o: Any) -> Any:
    return x * type(o)().q


def asks(x: Tensor, o: Any) -> Any:
    return x * getattr(o, "absent", 5)


PROPERTY = property(lambda self: 7.0, lambda self, value: None)
LATER = [
    (Plain, "q", PROPERTY), (Derived, "q", PROPERTY), (Derived, "__bool__", lambda self: False),
    (Plain, "__getattr__", lambda self, name: 9), (Derived, "__getattribute__", lambda self, name: 11.0),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name", "added"), LATER, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("fn", [reads, makes, asks])
def test_what_is_added_to_a_class_later(
    fn: Callable[..., Any], owner: type, name: str, added: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, o = minicompile.compile(fn), Derived()
    assert_same(compiled(X, o), fn(X, o))
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, added, raising=False)
        assert_same(compiled(X, o), fn(X, o))
    assert_same(compiled(X, o), fn(X, o))
    assert len(compiled.entries) <= 2


class WithDefault:
    q: Any = 2.0


def test_a_default_that_becomes_a_property(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, o = minicompile.compile(reads), WithDefault()
    o.q = 3.0
    assert_same(compiled(X, o), 3.0 * X)
    monkeypatch.setattr(WithDefault, "q", PROPERTY)
    assert_same(compiled(X, o), 7.0 * X)


def default_of(x: Tensor, owner: Any) -> Any:
    return x * getattr(owner, "later", 2.0)


def asked(x: Tensor, owner: Any) -> Any:
    return x + hasattr(owner, "later")


def caught(x: Tensor, owner: Any) -> Any:
    try:
        return x * owner.later
    except AttributeError:
        return x


def counted(x: Tensor, owner: Any) -> Any:
    owner.later = getattr(owner, "later", 0.0) + 1
    return x * owner.later


@pytest.mark.parametrize("make", [lambda: type("Owner", (), {}), lambda: ModuleType("owner")], ids=["class", "module"])
@pytest.mark.parametrize("fn", [default_of, asked, caught, counted])
def test_an_attribute_that_a_class_or_module_gets_later(fn: Callable[..., Any], make: Callable[[], Any]) -> None:
    compiled = minicompile.compile(fn)
    mine, eagers = make(), make()
    for _ in range(2):
        assert_same(compiled(X, mine), fn(X, eagers))
    mine.later = eagers.later = 3.0
    assert_same(compiled(X, mine), fn(X, eagers))
    del mine.later, eagers.later
    assert_same(compiled(X, mine), fn(X, eagers))


def _to_the_end(d: dict[str, int]) -> None:
    d.pop("a")
    d["a"] = 1


def _other_key(d: dict[str, int]) -> None:
    d.pop("a", None)
    d["z"] = 1


DICT_CHANGES: list[Callable[[Any], Any]] = [
    lambda d: d.update(z=1), lambda d: d.pop("a"), lambda d: d.update(a=5), lambda d: d.clear(),
    _to_the_end, _other_key,
]  # fmt: skip


@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("change", range(len(DICT_CHANGES)))
def test_dicts_that_change_while_they_are_iterated(change: int, kind: type, is_broken: bool) -> None:
    def fn(x: Tensor, d: Any, at: int) -> Any:
        seen: list[Any] = []
        try:
            for i, key in enumerate(d):
                seen.append(key)
                if i == at:
                    if is_broken:
                        torch._dynamo.graph_break()
                    DICT_CHANGES[change](d)
        except RuntimeError as error:
            seen.append(str(error))
        return x, seen, list(d)

    for size in (1, 2, 3):
        for at in range(size):
            compiled = minicompile.compile(fn)
            assert_same(*(call(X, kind((key, 0) for key in "abc"[:size]), at) for call in (compiled, fn)))


def slices_of_what_changes(x: Tensor, items: list[Any]) -> Any:
    other = [7, 8]
    items[1:2] = other
    items[len(items) :] = (v for v in other)
    items[:0] = iter([0])
    other.append(9)
    return x, other


def sorted_while_it_is_sorted(x: Tensor, items: list[Any]) -> Any:
    seen: list[int] = []
    items.sort(key=lambda v: seen.append(len(items)) or -v)
    try:
        items.sort(key=lambda v: items.append(5) or v)
    except ValueError as error:
        return x, seen, str(error)


def put_together(x: Tensor, items: list[Any]) -> Any:
    one, other, third = {1}, {2}, {"a": 1}
    items.append(one)
    one |= other
    one.update(v for v in other)
    other.add(3)
    items.append(third)
    third |= (more := {"b": 2})
    third.update(more)
    more["c"] = 3
    items += (tail := [4])
    items.extend(tail)
    tail.append(5)
    return x


def given_itself(x: Tensor, items: list[Any]) -> Any:
    items[0] = items
    same = items == [items, 2, 3]
    found = [v for v in items if v != 2]
    items[0] = 1
    return x, same, found


@pytest.mark.parametrize("fn", [slices_of_what_changes, sorted_while_it_is_sorted, put_together, given_itself])
def test_lists_that_are_given_what_changes(fn: Callable[..., Any]) -> None:
    compiled = minicompile.compile(fn)
    mine, eagers = [1, 2, 3], [1, 2, 3]
    for _ in range(2):
        assert_same(compiled(X, mine), fn(X, eagers))
        assert_same(mine, eagers)
        mine, eagers = mine[:3], eagers[:3]


def grown_at(x: Tensor, items: Any, at: int) -> Any:
    for v in items:
        if v == at:
            items.append(9)
    return x


@pytest.mark.parametrize("at", [1, 3])
def test_a_deque_that_grows_while_it_is_iterated(at: int) -> None:
    for call in (minicompile.compile(grown_at), grown_at):
        with pytest.raises(RuntimeError, match="deque mutated during iteration"):
            call(X, deque([1, 2, 3]), at)


def counted_up_to(what: Any, count: int) -> Any:
    """How long it is by then; more than three raise."""
    for i in range(count):
        if i == 3:
            raise ValueError(len(what))
        yield len(what)


class Lengths:
    def __init__(self, what: Any) -> None:
        self.what = what

    def __getitem__(self, index: int) -> int:
        return [len(self.what)][index // 2]


def filled_with_what_looks_at_it(x: Tensor, items: list[Any], table: dict[Any, Any], members: set[Any]) -> Any:
    tensors = [x]
    tensors.extend(tensors[-1] + i for i in range(3))
    items.extend(map(lambda v: v + items[-1], [1, 2]))
    items += counted_up_to(items, 2)
    items.extend(Lengths(items))
    items[1:1] = counted_up_to(items, 2)
    table.update((v, len(table)) for v in counted_up_to(table, 2))
    members.update(counted_up_to(members, 2), Lengths(members), [100])
    ends = deque([1], maxlen=4)
    ends.extend(len(ends) for _ in range(2))
    ends.extendleft(len(ends) for _ in range(2))
    ends.extend(ends)
    return tensors, list(ends)


def filled_until_it_raises(x: Tensor, items: list[Any], table: dict[Any, Any], members: set[Any]) -> Any:
    said = []
    for fill in (
        lambda: items.extend(counted_up_to(items, 4)),
        lambda: operator.iadd(items, counted_up_to(items, 4)),
        lambda: members.update(counted_up_to(members, 4)),
        lambda: table.update((v, 1) for v in counted_up_to(table, 4)),
        lambda: table.update([(7, 7), (1,)]),
        lambda: table.update(p for p in [(8, 8), 5]),
    ):
        try:
            fill()
        except (ValueError, TypeError) as error:
            said.append(str(error))
    return x + 1, said


@pytest.mark.parametrize("fn", [filled_with_what_looks_at_it, filled_until_it_raises])
def test_what_is_filled_is_seen_by_what_fills_it(fn: Callable[..., Any]) -> None:
    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    mine, eagers = (([5], {5: 1}, {9}) for _ in range(2))
    for _ in range(2):
        assert_same(compiled(X, *mine), fn(X, *eagers))
        assert_same(mine, eagers)


METHODS = [X.add, X.mul, [1, 2].count, [2, 2].index, {2: 3}.get, {2: 3}.__contains__, {2}.__contains__, "22".zfill]


def test_a_bound_method_is_known_by_its_name() -> None:
    method: Any = X.add
    compiled = minicompile.compile(lambda x: (method(2), x + 1), backend="eager", fullgraph=True)
    for method in METHODS:
        assert_same(compiled(X)[0], method(2))
