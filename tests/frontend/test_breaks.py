"""Graph breaks: what is printed stays in order, effects are neither lost nor doubled, few segments are compiled."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile
from minicompile.errors import GraphBreakError
from minicompile.frontend.breaks import BreakKind

from .conftest import assert_like_eager

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)


def kinds(compiled: Any) -> set[BreakKind]:
    return {record.kind for record in compiled.breaks}


# ---- where a break stands ----


def test_print_in_a_loop_compiles_a_few_segments_for_any_number_of_rounds() -> None:
    def fn(x: Tensor, rounds: int) -> Tensor:
        for step in range(rounds):
            x = x * 2
            print("step", step)
            x = x + step
        return x

    compiled = assert_like_eager(fn, (X, 3), (X, 30))
    assert kinds(compiled) == {BreakKind.CALL}
    assert len(compiled.entries) <= 7


def test_break_in_a_while_loop() -> None:
    def fn(x: Tensor) -> Any:
        n = 0
        while x.sum() < 1000:
            x = x * 2
            n += 1
        return x, n

    compiled = assert_like_eager(fn, (X,))
    assert kinds(compiled) == {BreakKind.BRANCH}
    assert len(compiled.entries) <= 6


def test_data_dependent_branch_compiles_both_ways() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y * 3

    compiled = assert_like_eager(fn, (X,), (-X - 5,), graphs=3)
    assert kinds(compiled) == {BreakKind.BRANCH}
    assert len(compiled.breaks) == 1


@pytest.mark.parametrize("flag", [True, False])
def test_and_or_and_conditional_expression_on_tensors(flag: bool) -> None:
    def fn(x: Tensor) -> Any:
        a = (x.sum() > 0) and "yes"
        b = (x.sum() > 0) or "no"
        c = "big" if x.max() > 3 else "small"
        return a if isinstance(a, str) else bool(a), b if isinstance(b, str) else bool(b), c, not x.sum() > 0

    assert_like_eager(fn, (X if flag else -X,))


def test_break_in_an_inlined_function_compiles_it_on_its_own() -> None:
    def inner(x: Tensor, log: list[Any]) -> Tensor:
        y = x + 1
        log.append("before")
        print("inner")
        log.append("after")
        return y * 2

    def fn(x: Tensor, log: list[Any]) -> Tensor:
        log.append("start")
        z = inner(x * 3, log)
        log.append("end")
        return z - 1

    compiled = assert_like_eager(fn, (X, []), graphs=4)
    first = compiled.breaks[0]
    assert "print" in first.reason and first.location.function == "inner"


def test_break_two_functions_deep() -> None:
    def leaf(x: Tensor) -> Tensor:
        print("leaf")
        return x + 1

    def middle(x: Tensor) -> Tensor:
        return leaf(x * 2) * 2

    def fn(x: Tensor) -> Tensor:
        return middle(x) + 1

    assert_like_eager(fn, (X,))


def test_break_in_try_and_finally() -> None:
    def fn(x: Tensor, log: list[Any]) -> Any:
        y = x + 1
        log.append(1)
        try:
            print("in try")
            y = y * 2
        except ValueError:
            y = y * 3
        finally:
            log.append(2)
        return y + 1

    assert_like_eager(fn, (X, []))


def test_exception_handled_around_a_break() -> None:
    def fn(x: Tensor, log: list[Any]) -> Any:
        try:
            log.append("in")
            print("before")
            raise KeyError("k")
        except KeyError as error:
            log.append(str(error))
        return x + 1, log

    assert_like_eager(fn, (X, []))


def test_exception_handled_without_a_break() -> None:
    def fn(x: Tensor, d: dict[str, int]) -> Any:
        try:
            k = d["missing"]
        except KeyError:
            k = 4
        return x * k

    assert_like_eager(fn, (X, {}), eager=True)


def test_break_in_with() -> None:
    @contextlib.contextmanager
    def manager(log: list[str]) -> Any:
        log.append("in")
        yield 3
        log.append("out")

    def fn(x: Tensor, log: list[str]) -> Any:
        y = x + 1
        with manager(log) as k:
            y = y * k
            print("inside")
        return y + 1

    assert_like_eager(fn, (X, []))


def test_break_in_no_grad_keeps_and_restores_the_mode() -> None:
    def fn(x: Tensor) -> Any:
        with torch.no_grad():
            y = x * 2
            print(torch.is_grad_enabled())
            z = x + 1
        return y.requires_grad, z.requires_grad, (x * 2).requires_grad

    compiled = assert_like_eager(fn, (X.clone().requires_grad_(),))
    assert len(compiled.entries) == 2
    assert torch.is_grad_enabled()


def test_exception_in_no_grad_restores_the_mode() -> None:
    def fail() -> None:
        raise ValueError("x")

    def fn(x: Tensor) -> Any:
        with torch.no_grad():
            y = x * 2
            fail()
        return y

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError):
            compiled(X)
        assert torch.is_grad_enabled()


def test_break_in_a_comprehension() -> None:
    def fn(x: Tensor) -> Any:
        return [x * int(row.sum()) for row in x]

    assert_like_eager(fn, (X,))


def test_break_inside_a_call_expression_keeps_the_stack() -> None:
    def fn(x: Tensor) -> Any:
        return torch.add(x + 1, torch.mul(x, x.sum().item())), [x, float(x.max()), {"k": int(x.min())}]

    assert_like_eager(fn, (X,))


def test_break_with_closures_and_cells_alive() -> None:
    def fn(x: Tensor) -> Any:
        n = 1

        def bump() -> int:
            nonlocal n
            n += 1
            return n

        a = bump()
        print(a)
        b = bump()
        return x * n, a, b, n

    assert_like_eager(fn, (X,))


def test_super_after_a_break_finds_the_first_argument() -> None:
    class Base:
        def scale(self, x: Tensor) -> Tensor:
            return x * 2

    class Derived(Base):
        def scale(self, x: Tensor) -> Tensor:
            print("before")
            y = super().scale(x)
            try:
                print("tail")
                return y + super().scale(x)
            except ValueError:
                return y

    def fn(x: Tensor) -> Tensor:
        return Derived().scale(x) + 1

    assert_like_eager(fn, (X,))


def test_local_list_and_object_survive_breaks() -> None:
    class Box:
        def __init__(self) -> None:
            self.items: list[Any] = []

    def fn(x: Tensor) -> Any:
        box = Box()
        alias = box.items
        box.items.append(x + 1)
        print(len(alias))
        alias.append(x * 2)
        print(len(box.items))
        return box.items, alias is box.items

    assert_like_eager(fn, (X,))


def test_generator_consumer() -> None:
    def numbers(n: int) -> Any:
        i = 0
        while i < n:
            yield i
            i += 1

    def fn(x: Tensor) -> Any:
        total = x
        for i in numbers(3):
            total = total + i
        return total, sum(i for i in range(4)), list(numbers(2))

    assert_like_eager(fn, (X,), graphs=1)


def test_generator_in_use_across_breaks() -> None:
    def numbers(x: Tensor, log: list[Any]) -> Any:
        log.append("start")
        for i in range(3):
            yield x * i
        log.append("end")

    def fn(x: Tensor, log: list[Any]) -> Any:
        generator = numbers(x, log)
        total = next(generator)
        print("between")
        for item in generator:
            total = total + item
            print("round", log)
        return total, log, next(generator, "done")

    assert_like_eager(fn, (X, []))


def test_generator_not_started_before_a_break() -> None:
    def fn(x: Tensor) -> Any:
        generator = (x * i for i in range(3))
        print("between")
        return list(generator)

    assert_like_eager(fn, (X,))


def test_the_callers_iterator_advances() -> None:
    def fn(x: Tensor, iterator: Any) -> Tensor:
        for k in iterator:
            x = x + k
            if k == 2:
                break
        return x

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        iterator = iter([1, 2, 3, 4])
        assert torch.equal(compiled(X, iterator), X + 3)
        assert list(iterator) == [3, 4]


def test_what_an_iterator_from_before_still_has() -> None:
    def fn(x: Tensor, iterator: Any) -> Any:
        first = next(iterator)
        return x + first, list(iterator), [*iterator]

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for items in ([1, 2, 3], (1, 2, 3), range(4)):
        mine, eagers = iter(items), iter(items)
        (result, *rest), (expected, *others) = compiled(X, mine), fn(X, eagers)
        assert torch.equal(result, expected) and rest == others
        assert list(mine) == []


def test_a_list_that_grows_while_a_broken_loop_iterates_it() -> None:
    def fn(x: Tensor, todo: list[int]) -> Any:
        for n in todo:
            print(n)
            if n:
                todo.append(n - 1)
            x = x + n
        return x, todo

    assert_like_eager(fn, (X, [3]), (X, [0, 2]))


def test_calls_that_look_at_their_caller() -> None:
    import sys
    import warnings

    def fn(x: Tensor) -> Any:
        y = x + 1
        names = sorted(locals())
        has_x = "X" in globals()
        z = y * 2
        return z, names, has_x, eval("len(names) + 1"), sys._getframe().f_code.co_name

    assert_like_eager(fn, (X,))

    def warns(x: Tensor) -> Tensor:
        y = x + 1
        warnings.warn("look here", UserWarning, stacklevel=1)
        return y

    compiled = minicompile.compile(warns, backend="eager")
    with pytest.warns(UserWarning, match="look here") as caught:
        compiled(X)
    if minicompile.frontend.hook.available():  # the wrapper has a frame of its own between
        assert caught[0].filename == __file__ and caught[0].lineno == warns.__code__.co_firstlineno + 2


# ---- kinds ----


def test_reading_values() -> None:
    def fn(x: Tensor) -> Any:
        return (
            x * x.sum().item(),
            x.tolist(),
            int(x.max()),
            float(x[0, 0]),
            f"{x.sum():.1f}",
            x[x > 3],
            x.nonzero().shape,
        )

    compiled = assert_like_eager(fn, (X,))
    assert BreakKind.VALUE in kinds(compiled)


def test_explicit_break() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x + 1
        minicompile.graph_break()
        return y * 2

    compiled = assert_like_eager(fn, (X,), graphs=2)
    assert kinds(compiled) == {BreakKind.EXPLICIT}


def test_disabled_function_is_called_for_real() -> None:
    calls = []

    @minicompile.disable
    def logged(x: Tensor) -> Tensor:
        calls.append(minicompile.is_compiling())
        return x + 1

    def fn(x: Tensor) -> Tensor:
        return logged(x * 2) * 3

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(X), (X * 2 + 1) * 3)
    assert calls == [False, False]


def test_opaque_objects_keep_working() -> None:
    import re
    import threading

    def fn(x: Tensor, lock: Any) -> Any:
        with lock:
            y = x + 1
        match = re.match(r"(\d+)", "42x")
        return y * int(match.group(1)), str(y.dtype)

    compiled = minicompile.compile(fn, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(X, threading.Lock())[0], (X + 1) * 42)


def test_numpy_between_graphs() -> None:
    def fn(x: Tensor) -> Any:
        a = (x * 2).numpy()
        a[0, 0] = 9
        return torch.from_numpy(a) + 1

    assert_like_eager(fn, (X,))


# ---- what users see ----


def test_fullgraph_raises_with_place_reason_and_hint() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x + 1
        print("no")
        return y

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(GraphBreakError) as caught:
        compiled(X)
    error = caught.value
    assert error.file == __file__ and error.line == fn.__code__.co_firstlineno + 2 and error.function == "fn"
    assert "print()" in error.reason and error.hint
    assert f"{__file__}:{error.line}" in str(error)


def test_records_of_breaks() -> None:
    def fn(x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x + 1
        return x

    compiled = assert_like_eager(fn, (X,))
    (record,) = compiled.breaks
    assert record.file == __file__ and record.line == fn.__code__.co_firstlineno + 1
    assert record.kind is BreakKind.BRANCH and record.hint in str(record)


def test_dead_values_are_not_computed_for_the_next_segment(backend: Any) -> None:
    def fn(x: Tensor) -> Tensor:
        dead = x * 100  # noqa: F841
        kept = x + 1
        print("break")
        return kept

    minicompile.compile(fn, backend=backend)(X)
    (output,) = [node for node in backend.graphs[0].graph.nodes if node.op == "output"]
    assert len(output.args[0]) == 1
