"""Reading code objects: one set of opcodes on every Python, jumps, exception handlers, live variables."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest

from minicompile.frontend.bytecode import Decoded, decode
from minicompile.frontend.interpreter import HANDLERS

# What CPython has and the tracer leaves to breaks and eager tails, on purpose: module and class bodies, exceptions in
# flight, generators and coroutines, class patterns.
LEFT_OUT = {
    "STORE_NAME", "LOAD_NAME", "DELETE_NAME", "LOAD_LOCALS", "SETUP_ANNOTATIONS", "IMPORT_STAR", "LOAD_BUILD_CLASS",
    "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "PUSH_EXC_INFO", "CHECK_EXC_MATCH", "CHECK_EG_MATCH",
    "POP_EXCEPT", "RERAISE", "RAISE_VARARGS", "WITH_EXCEPT_START", "RETURN_GENERATOR", "YIELD_VALUE", "SEND",
    "END_SEND", "CLEANUP_THROW", "GET_YIELD_FROM_ITER", "GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR",
    "BEFORE_ASYNC_WITH", "MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING", "MATCH_SEQUENCE", "GET_LEN", "PREP_RERAISE_STAR",
    "CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "EXIT_INIT_CHECK",
}  # fmt: skip


def ops(fn: Any) -> list[str]:
    return [instruction.op for instruction in decode(fn.__code__).instructions]


def test_a_call_with_keywords_is_one_instruction() -> None:
    def fn(f: Any, x: Any) -> Any:
        return f(x, key=1)

    names = ops(fn)
    assert names.count("CALL") + names.count("CALL_KW") == 1 and "PRECALL" not in names and "KW_NAMES" not in names


def test_branches_and_loops_have_one_name_and_resolved_targets() -> None:
    def fn(x: Any) -> Any:
        while x:
            if x is None:
                continue
            x = x - 1
        return x

    decoded = decode(fn.__code__)
    jumps = [instruction for instruction in decoded.instructions if "JUMP" in instruction.op]
    assert {jump.op for jump in jumps} <= {
        "JUMP", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE",
    }  # fmt: skip
    assert all(0 <= jump.target < len(decoded.instructions) for jump in jumps)


def test_every_instruction_knows_its_line() -> None:
    def fn(x: Any) -> Any:
        y = x + 1
        return y

    lines = {i.op: i.line - fn.__code__.co_firstlineno for i in decode(fn.__code__).instructions}
    assert lines["BINARY_OP"] == 1 and lines["RETURN_VALUE"] == 2


def live_at(fn: Any, op: str) -> frozenset[str]:
    decoded = decode(fn.__code__)
    (index,) = [instruction.index for instruction in decoded.instructions if instruction.op == op]
    return decoded.live[index]


def test_dead_variables_are_not_live() -> None:
    def fn(x: Any) -> Any:
        dead = x
        kept = x
        again = -x
        dead = kept  # noqa: F841
        return again, kept

    assert live_at(fn, "UNARY_NEGATIVE") == {"kept"}


def test_variables_of_an_exception_handler_and_of_the_next_round_are_live() -> None:
    def fn(x: Any, fallback: Any, rounds: Any) -> Any:
        for step in rounds:
            try:
                x = -step
            except ValueError:
                x = fallback
        return x

    assert {"fallback"} <= live_at(fn, "UNARY_NEGATIVE")


def test_handlers_are_found_by_offset() -> None:
    def fn(x: Any) -> Any:
        try:
            x = -x
        except ValueError:
            pass
        return ~x

    decoded = decode(fn.__code__)
    by_op = {instruction.op: instruction for instruction in decoded.instructions}
    assert decoded.handler_at(by_op["UNARY_NEGATIVE"].offset) is not None
    assert decoded.handler_at(by_op["UNARY_INVERT"].offset) is None


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", ["argparse", "functools", "dataclasses", "statistics", "ast", "asyncio.base_events"])
def test_the_standard_library_reads_and_has_rules(module: str) -> None:
    import importlib

    file = importlib.import_module(module).__file__
    assert file is not None
    with open(file, "rb") as stream:
        root = compile(stream.read(), file, "exec")
    for code in codes(root):
        decoded: Decoded = decode(code)
        assert len(decoded.live) == len(decoded.instructions) + 1
        unknown = {instruction.op for instruction in decoded.instructions} - HANDLERS.keys() - LEFT_OUT
        assert not unknown, f"{code.co_qualname}: {unknown}"
