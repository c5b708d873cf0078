"""Going on in the middle of a function: the outcome is that of the whole function, from any point of it."""

from __future__ import annotations

import dis
import sys
import traceback
from types import CellType, FunctionType

import pytest

from minicompile.frontend.eager_tail import EagerTail, resume_function


def instructions(function):
    return [i for i in dis.get_instructions(function) if i.opname not in ("CACHE", "EXTENDED_ARG")]


def offset_after_call(function, name):
    """The offset of what follows the call of global `name`, with its result on the stack."""
    found = instructions(function)
    load = next(i for i, x in enumerate(found) if x.argval == name and x.opname.startswith("LOAD"))
    call = next(i for i in range(load, len(found)) if found[i].opname.startswith("CALL"))
    return found[call + 1].offset


def offset_after_statement(function, name):
    """The offset of what follows the statement `name()`, whose result is thrown away."""
    found, offset = instructions(function), offset_after_call(function, name)
    index = next(i for i, x in enumerate(found) if x.offset == offset)
    assert found[index].opname == "POP_TOP"
    return found[index + 1].offset


def resume(function, offset, variables, stack=()):
    """Go on with `function`; `stack` has values and, for NULL slots, Ellipsis."""
    layout = tuple(value is not ... for value in stack)
    state = (*variables.values(), *[value for value in stack if value is not ...])
    return EagerTail()(function, offset, state, local_names=tuple(variables), stack=layout)


def mark():
    """Where the tests go on."""


def test_straight_line_and_unbound_variables():
    def f(a, b, *rest, k=1, **kw):
        mark()
        c = a + b
        return c, rest, k, kw

    offset = offset_after_statement(f, "mark")
    assert resume(f, offset, {"a": 1, "b": 2, "rest": (3,), "k": 4, "kw": {"z": 5}}) == (3, (3,), 4, {"z": 5})
    assert resume(f, offset, {"kw": {}, "b": 2, "k": 4, "rest": (), "a": 1}) == (3, (), 4, {})  # any order

    def g(a, b):
        if b:
            del a
        mark()
        try:
            return a
        except UnboundLocalError as error:
            return str(error), b

    message, b = resume(g, offset_after_statement(g, "mark"), {"b": 7})  # slot 0, in which the argument came, is empty
    assert "'a'" in message and b == 7


def test_values_and_nulls_on_the_stack():
    def triple(a, b, c):
        return a, b, c

    def f(a):
        return triple(a, len(a), 1)

    null_first = sys.version_info < (3, 13)
    callee = (..., triple) if null_first else (triple, ...)
    offset = offset_after_call(f, "len")
    # `triple` is a free variable of f: its cell comes with the closure
    assert resume(f, offset, {"a": "AB"}, [*callee, "AB", 2]) == ("AB", 2, 1)
    assert resume(f, offset, {"a": "AB", "triple": CellType(triple)}, [*callee, "AB", 5]) == ("AB", 5, 1)


class Manager:
    def __init__(self, events, swallow):
        self.events, self.swallow = events, swallow

    def __enter__(self):
        self.events.append("enter")
        return 5

    def __exit__(self, kind, error, trace):
        self.events.append(kind and kind.__name__)
        return kind is self.swallow


def body_with_everything(x, n, fail, events):
    total = 0
    for i in range(n):
        with Manager(events, KeyError) as five:
            mark()
            if fail == "key":
                raise KeyError
            if fail == "value" and i == 2:
                raise ValueError(i)
            total += x * i + five
    try:
        if fail == "type":
            raise TypeError("t")
    except TypeError as error:
        total += len(str(error)) * 1000
    finally:
        events.append("finally")

    def inner():
        return total

    return inner(), [total + j for j in range(2)], {k: v for k, v in zip("ab", (x, n), strict=True)}


def outcome(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return type(error), error.args


@pytest.mark.parametrize("fail", ["", "key", "value", "type"])
def test_inside_a_loop_and_a_with_block(fail):
    f = body_with_everything
    whole_events: list = []
    whole = outcome(f, 3, 4, fail, whole_events)

    events = ["enter"]  # what the first iteration has done up to mark()
    iterator = iter(range(4))
    variables = {"x": 3, "n": 4, "fail": fail, "events": events, "i": next(iterator), "five": 5, "total": CellType(0)}
    manager = Manager(events, KeyError)
    got = outcome(lambda: resume(f, offset_after_statement(f, "mark"), variables, [iterator, manager.__exit__]))
    assert (got, events) == (whole, whole_events)


@pytest.mark.parametrize("error", [None, KeyError, ValueError])
def test_inside_try_with_handlers_and_finally(error):
    def f(error, events):
        try:
            try:
                mark()
                if error:
                    raise error("x")
                events.append("no error")
            except KeyError as caught:
                events.append(repr(caught))
                raise LookupError from caught
            finally:
                events.append("inner")
        except LookupError as caught:
            return type(caught.__cause__)
        finally:
            events.append("outer")

    offset = offset_after_statement(f, "mark")
    whole_events, events = [], []
    whole = outcome(f, error, whole_events)
    assert outcome(lambda: resume(f, offset, {"error": error, "events": events})) == whole
    assert events == whole_events


def test_cells_are_shared_and_missing_cells_are_made():
    def f(a, n):
        late = None
        seen = []

        def before():
            return a, n

        mark()
        late = [n]

        def after():
            nonlocal a
            a += 1
            return late, a

        seen.append(after())
        return before, seen

    a = CellType(10)
    offset = offset_after_statement(f, "mark")
    n = CellType(2)

    def before():
        return a.cell_contents, n.cell_contents

    _, seen = resume(f, offset, {"a": a, "n": n, "seen": [], "before": before})  # `late` has no cell yet
    assert seen == [([2], 11)] and a.cell_contents == 11

    def g(a):
        mark()
        a = 3
        return lambda: a

    assert resume(g, offset_after_statement(g, "mark"), {})() == 3  # the very first slot is a cell, and unbound


def test_free_variables():
    def outer(z):
        def inner(a):
            nonlocal z
            mark()
            z += a
            return z

        return inner, lambda: z

    inner, read = outer(10)
    assert resume(inner, offset_after_statement(inner, "mark"), {"a": 5}) == 15
    assert read() == 15


def test_code_without_locals():
    def make(z):
        def no_locals():
            mark()
            return z + 1

        def only_cells():
            mark()
            late = 4
            return lambda: (late, z)

        return no_locals, only_cells

    no_locals, only_cells = make(1)
    assert resume(no_locals, offset_after_statement(no_locals, "mark"), {}) == 2
    assert resume(only_cells, offset_after_statement(only_cells, "mark"), {})() == (4, 1)
    late = CellType()
    assert resume(only_cells, offset_after_statement(only_cells, "mark"), {"late": late})() == (4, 1)
    assert late.cell_contents == 4


def test_inside_a_comprehension():
    def f(xs):
        return [abs(x) for x in xs]

    items = iter([-2, 3])
    if sys.version_info < (3, 12):  # a function of its own
        code = next(c for c in f.__code__.co_consts if hasattr(c, "co_code"))
        comprehension = FunctionType(code, globals())
        offset = offset_after_call(comprehension, "abs")
        assert resume(comprehension, offset, {".0": items, "x": -1}, [[0], items, 1]) == [0, 1, 2, 3]
    else:  # in line: below the iterator lies what the variable held before, here nothing
        offset = offset_after_call(f, "abs")
        assert resume(f, offset, {"xs": [], "x": -1}, [..., [0], items, 1]) == [0, 1, 2, 3]


def test_a_long_function_with_extended_arguments():
    lines = "\n".join(f"    v{i} = a + {i}.5" for i in range(300))
    reads = "\n".join(f"    total += v{i}" for i in range(300))
    source = f"def f(a):\n    total = 0\n{lines}\n    mark()\n    v299 = v299 + v298\n{reads}\n    return total\n"
    scope = {"mark": mark}
    exec(source, scope)
    f = scope["f"]
    variables = {"a": 1, "total": 0} | {f"v{i}": 1 + i + 0.5 for i in range(300)}
    assert resume(f, offset_after_statement(f, "mark"), variables) == f(1)
    wide_load = next(i for i in dis.get_instructions(f) if i.argval == "v299" and i.opname.startswith("LOAD_FAST"))
    assert f.__code__.co_code[wide_load.offset - 2] == dis.EXTENDED_ARG  # given the offset after the prefix byte
    for offset in (wide_load.offset, wide_load.offset - 2):
        assert resume(f, offset, variables) == f(1)


def test_every_statement_can_be_the_first():
    def f(a, b):
        c = a * 2
        d = c - b
        if d > 3:
            d = -d
        return a, b, c, d

    stores = [x.offset for x in instructions(f) if x.opname.startswith("STORE_FAST")]
    assert len(stores) == 3
    states = [{"c": 10}, {"c": 10, "d": 9}, {"c": 10, "d": 1}]
    results = [(5, 1, 10, -9), (5, 1, 10, -9), (5, 1, 10, 1)]
    for offset, state, result in zip(stores, states, results, strict=True):
        assert resume(f, offset + 2, {"a": 5, "b": 1, **state}) == result


def test_line_numbers_in_tracebacks():
    def f(a):
        mark()
        b = a + 1
        raise RuntimeError(b)

    first = f.__code__.co_firstlineno
    with pytest.raises(RuntimeError) as caught:
        resume(f, offset_after_statement(f, "mark"), {"a": 1})
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.lineno, last.name, last.filename) == (first + 3, "f", __file__)
    assert "raise RuntimeError(b)" in last.line


def test_positions_and_handlers_move_together():
    code = body_with_everything.__code__
    tail = resume_function(code, offset_after_statement(body_with_everything, "mark"), local_names=("x",), stack=())
    moved = len(tail.co_code) - len(code.co_code)
    assert tail.co_code[moved:] == code.co_code
    assert list(tail.co_positions())[moved // 2 :] == list(code.co_positions())
    before, after = (dis._parse_exception_table(c) for c in (code, tail))  # type: ignore[attr-defined]
    assert [(e.start + moved, e.end + moved, e.target + moved, e.depth, e.lasti) for e in before] == [
        (e.start, e.end, e.target, e.depth, e.lasti) for e in after
    ]


def test_tails_are_made_once():
    def f(a):
        mark()
        return a

    tails, offset = EagerTail(), offset_after_statement(f, "mark")
    layout = {"local_names": ("a",), "stack": ()}
    first = tails.code(f.__code__, offset, **layout)
    assert tails.code(f.__code__, offset, **layout) is first
    assert tails.code(f.__code__, offset, local_names=(), stack=()) is not first
    assert tails.function(f, offset, **layout)((3,)) == 3


def test_what_cannot_be_resumed_is_refused():
    def plain(a):
        return a

    def generator():
        yield 1

    async def coroutine():
        return 1

    for function in (generator, coroutine):
        with pytest.raises(ValueError, match="generator"):
            resume_function(function.__code__, 0, local_names=(), stack=())
    for offset in (1, -2, 10_000):
        with pytest.raises(ValueError, match="offset"):
            resume_function(plain.__code__, offset, local_names=("a",), stack=())
    for names in (("b",), ("a", "a")):
        with pytest.raises(ValueError, match="variables"):
            resume_function(plain.__code__, 0, local_names=names, stack=())
