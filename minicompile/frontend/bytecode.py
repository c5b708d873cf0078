"""Reading a code object once: normalised instructions, jump targets, exception table, live variables.

In: a code object. Out: `Decoded`, cached for as long as the process lives (code objects that are compiled live as
long, and so do their inlined callees).

Reading takes `dis` and about 2 ms for a long function; nothing here writes bytecode.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any

from . import versions


@dataclass(slots=True)
class Instruction:
    """One normalised instruction. `target` is the index of the instruction that a jump goes to, or -1."""

    op: str
    arg: Any
    offset: int
    line: int
    index: int
    target: int = -1
    handler: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.offset} {self.op} {self.arg!r}>"


_JUMPS = frozenset(
    {
        "JUMP", "FOR_ITER", "SEND",
        "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE",
        "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP",
    }
)  # fmt: skip
_NO_FALL_THROUGH = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
_READS = frozenset(
    {
        "LOAD_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE",
        "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF",
    }  # fmt: skip
)


@dataclass
class Decoded:
    """A code object, read. `index_at` finds the normalised instruction at, or next behind, a byte offset."""

    code: CodeType
    instructions: list[Instruction]
    index_at: dict[int, int]
    handlers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)

    def handler_at(self, offset: int) -> tuple[int, int, int] | None:
        """`(range start, target, stack depth)` of the innermost exception handler that covers a byte offset."""
        for start, end, target, depth, _ in self.handlers:
            if start <= offset < end:
                return start, target, depth
        return None

    def catcher_at(self, offset: int) -> tuple[int, int, bool] | None:
        """`(target, stack depth, whether the offset is pushed as well)` of the innermost handler of a byte offset."""
        for start, end, target, depth, pushes_offset in self.handlers:
            if start <= offset < end:
                return target, depth, pushes_offset
        return None

    @cached_property
    def live(self) -> list[frozenset[str]]:
        """Per instruction: local variables that some way from here on may still read.

        Exception handlers count as reachable from wherever they cover. The first argument is live throughout a method
        that may call `super()`, which reads it behind everyone's back, and everything where `locals()` may be called.
        Backward data flow to a fixed point.
        """
        return _live_variables(self)

    @property
    def is_generator(self) -> bool:
        return bool(self.code.co_flags & inspect.CO_GENERATOR)

    @property
    def is_coroutine(self) -> bool:
        """Of any kind: coroutine, generator-based one, asynchronous generator."""
        kinds = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
        return bool(self.code.co_flags & kinds)


_cache: dict[int, Decoded] = {}


def decode(code: CodeType) -> Decoded:
    """Read a code object, or find what was read before. Keyed by identity: equal code may stand in other files."""
    decoded = _cache.get(id(code))
    if decoded is None:
        decoded = _cache[id(code)] = _decode(code)
    return decoded


def _decode(code: CodeType) -> Decoded:
    machine = list(dis.get_instructions(code))
    lines = _lines(code)
    instructions: list[Instruction] = []
    index_at: dict[int, int] = {}
    for start, normal in versions.normalise(machine, code.co_consts):
        index_at[start.offset] = len(instructions)
        for op, arg in normal:
            line = lines.get(start.offset, code.co_firstlineno)
            instructions.append(Instruction(op, arg, start.offset, line, len(instructions)))
    index_at = _with_skipped(machine, index_at, len(instructions))
    _resolve_jumps(instructions, index_at)
    return Decoded(code, instructions, index_at, versions.exception_table(code))


def _lines(code: CodeType) -> dict[int, int]:
    """Byte offset of every code unit → line number; a unit without one has its predecessor's."""
    result: dict[int, int] = {}
    last = code.co_firstlineno
    for start, end, line in code.co_lines():
        last = line or last
        result.update(dict.fromkeys(range(start, end, 2), last))
    return result


def _with_skipped(machine: list[dis.Instruction], index_at: dict[int, int], end: int) -> dict[int, int]:
    """Also map offsets of instructions that mean nothing, or that were merged, to the next that means something."""
    result = dict(index_at)
    following = end
    for instruction in reversed(machine):
        following = result.setdefault(instruction.offset, following)
    return result


def _resolve_jumps(instructions: list[Instruction], index_at: dict[int, int]) -> None:
    for instruction in instructions:
        if instruction.op in _JUMPS:
            instruction.target = index_at[instruction.arg]


def _live_variables(decoded: Decoded) -> list[frozenset[str]]:
    instructions = decoded.instructions
    hidden = _read_unseen(decoded)
    live: list[frozenset[str]] = [hidden] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for instruction in reversed(instructions):
            after = hidden
            for successor in _successors(decoded, instruction):
                after |= live[successor]
            before = _before(instruction, after) | hidden
            if before != live[instruction.index]:
                live[instruction.index] = before
                changed = True
    return live


_LOOKS_AT_ITSELF = {
    "LOAD_GLOBAL": frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"}),
    "LOAD_ATTR": frozenset({"_getframe", "currentframe"}),
}
"""Names by which a frame gets at its variables without an instruction for each."""


def _read_unseen(decoded: Decoded) -> frozenset[str]:
    """Variables that no instruction shows to be read: those of a frame that looks at itself, or its first argument."""
    code = decoded.code
    if any(step.arg[0] in _LOOKS_AT_ITSELF[step.op] for step in decoded.instructions if step.op in _LOOKS_AT_ITSELF):
        return frozenset((*code.co_varnames, *code.co_cellvars))
    return frozenset(code.co_varnames[:1]) if "__class__" in code.co_freevars else frozenset()


def _successors(decoded: Decoded, instruction: Instruction) -> list[int]:
    result = [] if instruction.op in _NO_FALL_THROUGH else [instruction.index + 1]
    if instruction.target >= 0:
        result.append(instruction.target)
    handler = decoded.handler_at(instruction.offset)
    if handler is not None:
        result.append(decoded.index_at[handler[1]])
    return result


def _before(instruction: Instruction, after: frozenset[str]) -> frozenset[str]:
    if instruction.op in _READS:
        return after | {instruction.arg}
    if instruction.op == "STORE_FAST":
        return after - {instruction.arg}
    return after
