"""What differs between CPython 3.11, 3.12 and 3.13, in one place.

In: instructions as `dis` gives them, and code objects.
Out: one set of opcodes with one meaning (`normalise`), and a few facts that the frontend asks for.

The interpreter, the liveness analysis and the break table see normalised opcodes only. A normalised instruction that
stands for several of the machine's (3.11's KW_NAMES + PRECALL + CALL, 3.13's TO_BOOL + POP_JUMP_IF_TRUE) carries the
offset of the first, so that execution can be handed over to CPython there at any time.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from typing import Any

VERSION = sys.version_info[:2]

NULL_FIRST = VERSION < (3, 13)
"""Whether the NULL that goes with a plain callable lies below it on the stack (3.11, 3.12) or above it (3.13)."""

FOR_ITER_POPS = VERSION < (3, 12)
"""Whether an exhausted FOR_ITER pops its iterator itself (3.11) or leaves that to END_FOR (3.12 and 3.13)."""

SEND_POPS = VERSION < (3, 12)
"""Whether SEND pops an exhausted iterator itself (3.11) or leaves that to END_SEND (3.12 and 3.13)."""

_IGNORED = frozenset({"RESUME", "NOP", "PRECALL", "CACHE", "EXTENDED_ARG", "MAKE_CELL_NOP", "ASYNC_GEN_WRAP"})

_RENAMED = {
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_BACKWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "LOAD_FAST_CHECK": "LOAD_FAST",
}

_FORMAT_CONVERSIONS = {0: None, 1: str, 2: repr, 3: ascii}

Normal = tuple[str, Any]
"""Opcode and decoded argument of a normalised instruction."""


def normalise(
    instructions: Sequence[dis.Instruction], consts: tuple[Any, ...]
) -> Iterator[tuple[dis.Instruction, list[Normal]]]:
    """Pair every machine instruction that means something with the normalised ones that it stands for.

    Jump arguments are byte offsets of targets. Arguments by opcode: names for loads and stores; `(count, keyword
    names)` for CALL; the operator's text for BINARY_OP and COMPARE_OP; `(name, is method)` for LOAD_ATTR; `(name,
    push NULL)` for LOAD_GLOBAL; `(conversion, has spec)` for FORMAT_VALUE; the tuple of flags for MAKE_FUNCTION.
    """
    pending_start: dis.Instruction | None = None
    keyword_names: tuple[str, ...] = ()
    for index, instruction in enumerate(instructions):
        name = instruction.opname
        if name == "KW_NAMES":
            keyword_names = consts[instruction.arg or 0]  # 3.11's dis does not look it up
            pending_start = instruction
        elif name == "TO_BOOL" and _is_bool_consumer(instructions, index + 1):
            pending_start = instruction
        elif name == "CALL":
            yield pending_start or instruction, [("CALL", (instruction.arg, keyword_names))]
            pending_start, keyword_names = None, ()
        elif name not in _IGNORED:
            yield pending_start or instruction, _one(instruction)
            pending_start = None


def _is_bool_consumer(instructions: Sequence[dis.Instruction], index: int) -> bool:
    name = instructions[index].opname
    return name == "UNARY_NOT" or name.startswith("POP_JUMP")


def _one(instruction: dis.Instruction) -> list[Normal]:
    special = _SPECIAL.get(instruction.opname)
    if special is not None:
        return special(instruction)
    name = _RENAMED.get(instruction.opname, instruction.opname)
    return [(name, instruction.argval)]


def _binary_op(instruction: dis.Instruction) -> list[Normal]:
    return [("BINARY_OP", instruction.argrepr)]


def _compare_op(instruction: dis.Instruction) -> list[Normal]:
    text = instruction.argval
    coerce = VERSION >= (3, 13) and instruction.arg is not None and bool(instruction.arg & 16)
    return [("COMPARE_OP", text), ("TO_BOOL", None)] if coerce else [("COMPARE_OP", text)]


def _load_attr(instruction: dis.Instruction) -> list[Normal]:
    is_method = VERSION >= (3, 12) and bool((instruction.arg or 0) & 1)
    return [("LOAD_ATTR", (instruction.argval, is_method))]


def _load_global(instruction: dis.Instruction) -> list[Normal]:
    return [("LOAD_GLOBAL", (instruction.argval, bool((instruction.arg or 0) & 1)))]


def _load_super_attr(instruction: dis.Instruction) -> list[Normal]:
    arg = instruction.arg or 0
    return [("LOAD_SUPER_ATTR", (instruction.argval, bool(arg & 1), bool(arg & 2)))]


def _format_value(instruction: dis.Instruction) -> list[Normal]:
    arg = instruction.arg or 0
    return [("FORMAT_VALUE", (_FORMAT_CONVERSIONS[arg & 3], bool(arg & 4)))]


def _convert_value(instruction: dis.Instruction) -> list[Normal]:
    return [("CONVERT_VALUE", _FORMAT_CONVERSIONS[instruction.arg or 0])]


def _make_function(instruction: dis.Instruction) -> list[Normal]:
    arg = instruction.arg or 0 if VERSION < (3, 13) else 0
    return [("MAKE_FUNCTION", tuple(bit for bit in (8, 4, 2, 1) if arg & bit))]


def _pair(first: str, second: str) -> Any:
    def split(instruction: dis.Instruction) -> list[Normal]:
        return [(first, instruction.argval[0]), (second, instruction.argval[1])]

    return split


def _contains_or_is(instruction: dis.Instruction) -> list[Normal]:
    return [(instruction.opname, bool(instruction.arg))]


def _intrinsic(instruction: dis.Instruction) -> list[Normal]:
    name = instruction.argrepr.removeprefix("INTRINSIC_")
    return [(name, None)] if name in ("LIST_TO_TUPLE", "UNARY_POSITIVE") else [(instruction.opname, name)]


_SPECIAL = {
    "BINARY_OP": _binary_op,
    "COMPARE_OP": _compare_op,
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": lambda instruction: [("LOAD_ATTR", (instruction.argval, True))],
    "LOAD_GLOBAL": _load_global,
    "LOAD_SUPER_ATTR": _load_super_attr,
    "FORMAT_VALUE": _format_value,
    "FORMAT_SIMPLE": lambda instruction: [("FORMAT_VALUE", (None, False))],
    "FORMAT_WITH_SPEC": lambda instruction: [("FORMAT_VALUE", (None, True))],
    "CONVERT_VALUE": _convert_value,
    "MAKE_FUNCTION": _make_function,
    "CONTAINS_OP": _contains_or_is,
    "IS_OP": _contains_or_is,
    "LOAD_FAST_LOAD_FAST": _pair("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": _pair("STORE_FAST", "STORE_FAST"),
    "STORE_FAST_LOAD_FAST": _pair("STORE_FAST", "LOAD_FAST"),
    "RETURN_CONST": lambda instruction: [("LOAD_CONST", instruction.argval), ("RETURN_VALUE", None)],
    "CALL_INTRINSIC_1": _intrinsic,
    "CALL_INTRINSIC_2": _intrinsic,
}


def exception_table(code: Any) -> list[tuple[int, int, int, int, bool]]:
    """`(start, end, target, depth, pushes offset)` of every entry of the code's exception table, byte offsets, end
    exclusive. The last: whether the raising instruction's offset goes on the stack below the exception."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return [(entry.start, entry.end, entry.target, entry.depth, bool(entry.lasti)) for entry in entries]


def inline_cache_units(opname: str) -> int:
    """How many code units of inline cache follow an instruction."""
    entries = dis._inline_cache_entries  # type: ignore[attr-defined]
    return entries.get(opname, 0) if isinstance(entries, dict) else entries[dis.opmap[opname]]
