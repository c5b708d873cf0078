"""A break of every kind in every place: what is around it is compiled, and all is as in eager."""

# ruff: noqa: E501, B007, B904, S110, SIM105, SIM117 (the programs are what users write)

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from typing import Any

import pytest
import torch
from torch import Tensor

import minicompile

from .conftest import assert_like_eager

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
LOCK = threading.Lock()


def sink(text: Any) -> None:
    print(text)


KINDS: dict[str, Any] = {
    "call": lambda x: print("here"),
    "branch": lambda x: "yes" if x.sum() > 0 else "no",
    "value": lambda x: x.sum().item(),
    "list": lambda x: x.tolist(),
    "instruction": lambda x: LOCK.__enter__() and LOCK.__exit__(),
    "explicit": lambda x: minicompile.graph_break(),
}


class Manager:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __enter__(self) -> int:
        self.log.append("enter")
        return 2

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append(("exit", kind))
        return kind is KeyError


@contextlib.contextmanager
def managed(log: list[Any]) -> Any:
    log.append("before")
    try:
        yield 3
    finally:
        log.append("after")


def straight(x: Tensor, broken: Any, log: list[Any]) -> Any:
    y = x + 1
    log.append(broken(y))
    return y * 2


def in_a_for_loop(x: Tensor, broken: Any, log: list[Any]) -> Any:
    for i in range(3):
        x = x + i
        log.append(broken(x))
        x = x * 2
    return x


def in_a_while_loop(x: Tensor, broken: Any, log: list[Any]) -> Any:
    i = 0
    while i < 3:
        x = x + i
        log.append(broken(x))
        i += 1
    return x


def in_try(x: Tensor, broken: Any, log: list[Any]) -> Any:
    try:
        y = x + 1
        log.append(broken(y))
        y = y * 2
    except ValueError:
        log.append("never")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y + 1


def in_finally(x: Tensor, broken: Any, log: list[Any]) -> Any:
    try:
        y = x + 1
    finally:
        log.append(broken(x))
        y = x * 2
    return y + 1


def in_with(x: Tensor, broken: Any, log: list[Any]) -> Any:
    with Manager(log) as k:
        y = x * k
        log.append(broken(y))
        y = y + 1
    return y * 2


def in_with_of_a_generator(x: Tensor, broken: Any, log: list[Any]) -> Any:
    with managed(log) as k:
        y = x * k
        log.append(broken(y))
        y = y + 1
    return y * 2


def in_no_grad_in_try(x: Tensor, broken: Any, log: list[Any]) -> Any:
    try:
        with torch.no_grad():
            y = x * 3
            log.append(broken(y))
            log.append(torch.is_grad_enabled())
            y = y + 1
    finally:
        log.append(torch.is_grad_enabled())
    return y * 2


def in_an_inlined_function(x: Tensor, broken: Any, log: list[Any]) -> Any:
    def inner(t: Tensor) -> Tensor:
        t = t + 1
        log.append(broken(t))
        return t * 2

    return inner(x) + inner(x * 2)


def in_a_comprehension(x: Tensor, broken: Any, log: list[Any]) -> Any:
    y = x + 1
    log.append([broken(y * i) for i in range(2)])
    return y * 2, {i: broken(y) for i in range(2)}


def in_a_consumer_of_a_generator(x: Tensor, broken: Any, log: list[Any]) -> Any:
    def numbers() -> Any:
        try:
            for i in range(3):
                log.append(i)
                yield x * i
        finally:
            log.append("closed")

    for y in numbers():
        log.append(broken(y))
        x = x + y
    return x


def in_a_generator(x: Tensor, broken: Any, log: list[Any]) -> Any:
    def numbers() -> Any:
        for i in range(3):
            log.append(broken(x * i))
            yield x * i

    return sum(numbers()) * 2


def in_a_condition(x: Tensor, broken: Any, log: list[Any]) -> Any:
    y = x + 1
    return (y * 2 if broken(y) is None else y * 3), not broken(y)


def in_arguments(x: Tensor, broken: Any, log: list[Any]) -> Any:
    return torch.add(x + 1, x * 2, alpha=(broken(x), 2)[1]), [x, broken(x), x + 3]


def in_a_handler(x: Tensor, broken: Any, log: list[Any]) -> Any:
    y = x + 1
    try:
        raise ValueError("v")
    except ValueError as error:
        log.append(broken(y))
        log.append((str(error), sys.exc_info()[0]))
    return y * 2


def in_a_method_of_an_object(x: Tensor, broken: Any, log: list[Any]) -> Any:
    class Adder:
        def __init__(self) -> None:
            self.k = broken(x)

        def __call__(self, t: Tensor) -> Tensor:
            log.append(broken(t))
            return t + 1

    return Adder()(x) * 2


POSITIONS = [
    straight, in_a_for_loop, in_a_while_loop, in_try, in_finally, in_with, in_with_of_a_generator, in_no_grad_in_try,
    in_an_inlined_function, in_a_comprehension, in_a_consumer_of_a_generator, in_a_generator, in_a_condition,
    in_arguments, in_a_handler, in_a_method_of_an_object,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("position", POSITIONS, ids=lambda fn: fn.__name__)
def test_like_eager(position: Any, kind: str) -> None:
    broken = KINDS[kind]

    def fn(x: Tensor, log: list[Any]) -> Any:
        return position(x, broken, log)

    compiled = assert_like_eager(fn, (X, []))
    assert any(record.kind for record in compiled.breaks)


@pytest.mark.parametrize("position", POSITIONS, ids=lambda fn: fn.__name__)
def test_what_is_around_the_break_is_compiled(position: Any, backend: Any) -> None:
    compiled = minicompile.compile(position, backend=backend)
    compiled(X, KINDS["call"], [])
    assert len(backend.graphs) >= 1
    before = len(backend.graphs)
    compiled(X, KINDS["call"], [])
    assert len(backend.graphs) == before


def fails(x: Any, kind: Any = ValueError) -> Any:
    print("fails")
    raise kind("no")


def raises_in_try(x: Tensor, log: list[Any]) -> Any:
    y = x + 1
    try:
        log.append("try")
        y = y * 2
        fails(y)
        log.append("never")
    except ValueError as error:
        log.append((str(error), sys.exc_info()[1] is error, [f.line for f in traceback.extract_tb(error.__traceback__)][-1]))
        y = y + 3
    finally:
        log.append("finally")
    log.append(sys.exc_info()[0])
    return y * 2


def raises_in_with(x: Tensor, log: list[Any]) -> Any:
    with Manager(log) as k:
        x = x * k
        fails(x, KeyError)
    try:
        with Manager(log), managed(log):
            fails(x, OSError)
    except OSError:
        log.append("os")
    return x + 1


def raises_in_a_loop(x: Tensor, log: list[Any]) -> Any:
    for kind in (ValueError, KeyError, None):
        try:
            if kind:
                fails(x, kind)
            x = x + 1
        except LookupError:
            log.append("lookup")
            continue
        except ValueError:
            x = x * 2
            log.append(x.sum().item())
    return x


def raises_in_no_grad(x: Tensor, log: list[Any]) -> Any:
    try:
        with torch.no_grad():
            y = x * 2
            fails(y)
    except ValueError:
        log.append(torch.is_grad_enabled())
    return x * 3


def torch_error_in_try(x: Tensor, log: list[Any]) -> Any:
    y = x + 1
    try:
        log.append("try")
        y = y @ y
    except RuntimeError as error:
        log.append(type(error).__name__)
    return y * 2


def index_error_in_the_graph(x: Tensor, log: list[Any]) -> Any:
    try:
        log.append("try")
        y = x[torch.tensor([7])]
    except IndexError:
        log.append("index")
        y = x
    return y * 2


def comprehension_in_try(x: Tensor, log: list[Any]) -> Any:
    i = "kept"
    try:
        log.append([fails(x * i) for i in range(2)])
    except ValueError:
        log.append(i)
    return x + 1


def next_in_try(x: Tensor, log: list[Any]) -> Any:
    iterator = map(fails, [x])
    try:
        for y in iterator:
            log.append("never")
    except ValueError:
        log.append("caught")
    return x + 1


def caught_by_the_caller(x: Tensor, log: list[Any]) -> Any:
    def inner(t: Tensor) -> Tensor:
        try:
            t = t + 1
            fails(t)
        finally:
            log.append("inner")
        return t

    try:
        return inner(x)
    except ValueError:
        log.append("outer")
    return x * 2


def with_a_lock(x: Tensor, log: list[Any]) -> Any:
    with LOCK:
        log.append(LOCK.locked())
        y = x + 1
    try:
        with LOCK:
            fails(y)
    except ValueError:
        log.append(LOCK.locked())
    return y


@pytest.mark.parametrize(
    "fn",
    [
        raises_in_try, raises_in_with, raises_in_a_loop, raises_in_no_grad, torch_error_in_try, index_error_in_the_graph,
        comprehension_in_try, next_in_try, caught_by_the_caller, with_a_lock,
    ],
    ids=lambda fn: fn.__name__,
)  # fmt: skip
def test_the_operation_for_real_raises(fn: Any) -> None:
    assert_like_eager(fn, (X, []), eager=True)  # the frame of `fails`, which raises


def values_change_while_a_dict_is_iterated(x: Tensor, log: list[Any]) -> Any:
    d = {"a": 1, "b": 2, "c": 3}
    for key, value in d.items():
        d["c"] = value + 10
        log.append((key, value))
    for value in d.values():
        d["c"] = 0
        log.append(value)
    return x, d


def a_dict_grows_while_it_is_iterated(x: Tensor, log: list[Any]) -> Any:
    d = {"a": 1}
    try:
        for key in d:
            log.append(key)
            d[key + "x"] = 1
    except RuntimeError as error:
        log.append(str(error))
    try:
        for key in d.keys():
            print(key)
            del d[key]
    except RuntimeError as error:
        log.append(str(error))
    for key, value in {"p": 1, "q": 2}.items():
        print(key)
        log.append(value)
    return x, d


def a_generator_is_left_in_try(x: Tensor, log: list[Any]) -> Any:
    def numbers() -> Any:
        try:
            yield from (1, 2)
        finally:
            log.append("closed")

    for n in numbers():
        break
    log.append("behind")
    return x * n


@pytest.mark.parametrize(
    "fn",
    [values_change_while_a_dict_is_iterated, a_dict_grows_while_it_is_iterated, a_generator_is_left_in_try],
    ids=lambda fn: fn.__name__,
)
def test_changes_while_something_is_iterated(fn: Any) -> None:
    assert_like_eager(fn, (X, []))
