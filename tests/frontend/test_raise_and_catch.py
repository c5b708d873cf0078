"""Exceptions that are raised and caught within one traced frame: one graph, effects and results as in eager."""

# ruff: noqa: E501, B017, B018, F841, B904, E722, SIM105, S110, B012, SIM107, TRY203, TRY301 (the programs are what users write)

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from .conftest import assert_like_eager
from .programs import Programs

pytestmark = pytest.mark.usefixtures("door")
X = torch.arange(8.0).reshape(2, 4)
PROGRAMS = Programs()
program = PROGRAMS.program


class Stop(Exception):
    pass


class Detailed(ValueError):
    def __init__(self, code: int, where: str = "here") -> None:
        super().__init__(f"{code} at {where}")
        self.code = code


class Deep(Detailed):
    pass


@program(X, [])
def caught_at_once(x: Tensor, log: list[Any]) -> Any:
    try:
        log.append("try")
        raise ValueError("no")
    except ValueError:
        log.append("caught")
        y = x + 1
    return y * 2


@program(X, [])
def clauses_are_tried_in_order(x: Tensor, log: list[Any]) -> Any:
    for error in (KeyError("k"), Stop, Detailed(3), ZeroDivisionError()):
        try:
            raise error
        except (KeyError, IndexError):
            log.append("lookup")
        except Stop:
            log.append("stop")
        except ValueError as caught:
            log.append(caught.code)
        except Exception:
            log.append("other")
        else:
            log.append("never")
        finally:
            log.append("finally")
    return x * len(log)


@program(X, {"a": 1}, [1])
def errors_of_python_itself(x: Tensor, d: dict[str, int], items: list[int]) -> Any:
    seen = []
    try:
        d["b"]
    except KeyError:
        seen.append("key")
    try:
        items[4]
    except IndexError:
        seen.append("index")
    try:
        x.nothing
    except AttributeError:
        seen.append("attribute")
    try:
        int("z")
    except ValueError as error:
        seen.append(str(error))
    try:
        1 / (x.shape[0] - 2)
    except ZeroDivisionError:
        seen.append("zero")
    try:
        undefined_name  # noqa: B018, F821
    except NameError:
        seen.append("name")
    try:
        next(iter([]))
    except StopIteration:
        seen.append("stop")
    try:
        a, b = items
    except ValueError:
        seen.append("unpack")
    try:
        (lambda q: q)()
    except TypeError:
        seen.append("call")
    try:
        if d["a"] != 2:
            raise AssertionError("two")
    except AssertionError as error:
        seen.append(error.args)
    return x + len(seen), seen


@program(X, [])
def raised_in_a_callee(x: Tensor, log: list[Any]) -> Any:
    def check(k: int) -> int:
        log.append(k)
        if k > 1:
            raise Deep(k, where="there")
        return k

    total = 0
    for k in range(4):
        try:
            total += check(k)
        except Detailed as error:
            log.append((type(error).__name__, error.code, str(error), error.args, isinstance(error, Deep)))
    return x * total, log


@program(X, [])
def handled_in_a_callee(x: Tensor, log: list[Any]) -> Any:
    def safe(d: dict[str, int], key: str) -> int:
        try:
            return d[key]
        except KeyError:
            log.append(key)
            return -1
        finally:
            log.append("done")

    return x * safe({"a": 2}, "a") + safe({}, "b")


@program(X, [])
def raised_again(x: Tensor, log: list[Any]) -> Any:
    def inner() -> None:
        try:
            raise Stop("first")
        except Stop:
            log.append("inner")
            raise

    try:
        inner()
    except Stop as error:
        log.append(str(error))
    return x + 1


@program(X, [])
def replaced_with_cause_and_context(x: Tensor, log: list[Any]) -> Any:
    try:
        try:
            raise KeyError("k")
        except KeyError as error:
            raise ValueError("v") from error
    except ValueError as error:
        log.append((type(error.__cause__).__name__, type(error.__context__).__name__, error.__suppress_context__))
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise Stop
    except Stop as error:
        log.append((error.__cause__, type(error.__context__).__name__, error.__suppress_context__))
    try:
        raise Stop from None
    except Stop as error:
        log.append((error.__cause__, error.__context__, error.__suppress_context__))
    return x


@program(X, [])
def finally_overrides(x: Tensor, log: list[Any]) -> Any:
    def swallow() -> int:
        try:
            raise Stop
        finally:
            return 4

    def order() -> int:
        try:
            log.append("body")
            return 1
        finally:
            log.append("finally")

    def loop() -> int:
        for i in range(5):
            try:
                if i == 1:
                    continue
                if i == 3:
                    break
            finally:
                log.append(i)
        return i

    return x * swallow(), order(), loop()


@program(X, [])
def nested_handlers(x: Tensor, log: list[Any]) -> Any:
    try:
        try:
            raise Stop("a")
        except KeyError:
            log.append("wrong")
        finally:
            log.append("inner finally")
    except Stop:
        try:
            raise KeyError("b")
        except KeyError:
            log.append("inner")
        log.append("outer")
    try:
        try:
            raise Stop
        finally:
            raise ValueError
    except Exception as error:
        log.append((type(error).__name__, type(error.__context__).__name__))
    return x * 2


class Swallowing:
    def __init__(self, log: list[Any], kinds: Any) -> None:
        self.log, self.kinds = log, kinds

    def __enter__(self) -> Swallowing:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append(("exit", kind.__name__ if kind else None, str(error)))
        return kind is not None and issubclass(kind, self.kinds)


@program(X, [])
def with_that_swallows(x: Tensor, log: list[Any]) -> Any:
    with Swallowing(log, ValueError):
        raise Detailed(5)
    try:
        with Swallowing(log, ValueError), Swallowing(log, OSError):
            log.append("body")
            raise KeyError("k")
    except KeyError:
        log.append("through")
    with Swallowing(log, ValueError) as s:
        x = x + 1
    return x, s.log is log


@contextlib.contextmanager
def managed(log: list[Any], swallow: bool = False) -> Any:
    log.append("before")
    try:
        yield 3
    except Stop:
        log.append("stop")
        if not swallow:
            raise
    finally:
        log.append("after")


@program(X, [])
def context_manager_functions(x: Tensor, log: list[Any]) -> Any:
    with managed(log) as k:
        y = x * k
    with managed(log, swallow=True):
        raise Stop
    try:
        with managed(log):
            raise Stop("again")
    except Stop as error:
        log.append(str(error))
    return y


@program(X, [])
def suppressed(x: Tensor, log: list[Any]) -> Any:
    with contextlib.suppress(KeyError, IndexError):
        log.append(1)
        {}["a"]
        log.append(2)
    with contextlib.nullcontext(5) as k:
        x = x * k
    with contextlib.ExitStack() if False else contextlib.nullcontext():
        x = x + 1
    return x


@program(X, [])
def generators_that_raise(x: Tensor, log: list[Any]) -> Any:
    def numbers() -> Any:
        try:
            yield 1
            yield 2
            raise Stop("end")
        finally:
            log.append("closed")

    total = 0
    try:
        for n in numbers():
            total += n
    except Stop:
        log.append("stop")
    return x * total


@program(X, [])
def thrown_into_and_closed(x: Tensor, log: list[Any]) -> Any:
    def worker() -> Any:
        while True:
            try:
                got = yield len(log)
                log.append(got)
            except Stop as error:
                log.append(str(error))
            except GeneratorExit:
                log.append("exit")
                raise

    g = worker()
    first = next(g)
    second = g.send("sent")
    third = g.throw(Stop("thrown"))
    g.close()
    try:
        next(g)
    except StopIteration:
        log.append("over")
    return x + first + second + third, log


@program(X, [])
def stop_iteration_has_the_value(x: Tensor, log: list[Any]) -> Any:
    def inner() -> Any:
        got = yield 1
        return got

    def outer() -> Any:
        result = yield from inner()
        log.append(result)
        return result

    g = outer()
    next(g)
    try:
        g.send(7)
    except StopIteration as stop:
        return x * stop.value


@program(X, [])
def yield_from_passes_exceptions_on(x: Tensor, log: list[Any]) -> Any:
    def inner() -> Any:
        try:
            yield 1
        except Stop:
            log.append("inner")
            yield 2

    def outer() -> Any:
        yield from inner()
        yield 3

    g = outer()
    return x, next(g), g.throw(Stop()), next(g), list(g)


class Stopping:
    """An iterator of the program's own that tells a value at its end, and has an error in between."""

    def __init__(self) -> None:
        self.n = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        self.n += 1
        if self.n == 2:
            raise KeyError("k")
        if self.n > 3:
            raise StopIteration("value")
        return self.n


@program(X, [])
def iterators_of_the_program(x: Tensor, log: list[Any]) -> Any:
    def outer() -> Any:
        it = Stopping()
        try:
            yield from it
        except KeyError:
            result = yield from it
            yield result

    return x, list(outer()), next(Stopping())


@program(X, [])
def the_name_is_deleted(x: Tensor, log: list[Any]) -> Any:
    error = 1
    try:
        raise Stop
    except Stop as error:
        pass
    try:
        error
    except UnboundLocalError:
        log.append("unbound")
    return x


@program(X, [])
def exceptions_as_values(x: Tensor, log: list[Any]) -> Any:
    errors = [ValueError("a", 1), Stop(), Detailed(2)]
    first = errors[0]
    first.extra = x + 1
    log.append((first.args, str(first), repr(errors[1]), errors[2].code, len(errors)))
    return x, isinstance(first, ValueError), first.extra, str(errors[1]), f"{errors[2]}"


@program(X)
def attribute_error_protocols(x: Tensor) -> Any:
    class Falling:
        def __getattr__(self, name: str) -> Any:
            if name == "there":
                return 5
            raise AttributeError(name)

    f = Falling()
    return x * f.there, hasattr(f, "other"), getattr(f, "other", 3), hasattr(f, "there")


@program(X)
def in_a_loop_with_else(x: Tensor) -> Any:
    for k in range(5):
        try:
            if k == 2:
                raise Stop
            x = x + k
        except Stop:
            break
    else:
        x = x * 100
    return x


@program(X)
def iteration_protocol(x: Tensor) -> Any:
    class Count:
        def __init__(self, n: int) -> None:
            self.n = n

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            if not self.n:
                raise StopIteration
            self.n -= 1
            return self.n

    class Old:
        def __getitem__(self, index: int) -> int:
            if index > 2:
                raise IndexError(index)
            return index * 10

    return x * sum(Count(4)), [k for k in Count(3)], list(Count(2)), list(Old()), 20 in Old(), next(Count(0), "none")


@program(X, [])
def exc_info(x: Tensor, log: list[Any]) -> Any:
    log.append(sys.exc_info()[0])
    try:
        raise Stop
    except Stop:
        log.append(sys.exc_info()[0] is Stop)
    log.append(sys.exc_info()[0])
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_like_eager(name: str) -> None:
    fn, args = PROGRAMS[name]
    compiled = assert_like_eager(fn, args, fullgraph=True)
    assert len(compiled.entries) == 1, [str(record) for record in compiled.recompiles]
