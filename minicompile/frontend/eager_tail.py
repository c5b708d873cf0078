"""The eager tail: go on with a function from the middle, in the plain interpreter.

In: a code object, the byte offset of the instruction to go on with, the names of the variables that are bound there
and the layout of the value stack. Out: a code object that takes one tuple (the variables' values, then the stack's)
and does what is left of the function, exception handlers, line numbers and all.

The new code is the old one, unchanged to the last byte, behind a prefix that rebuilds stack and variables and jumps:

    COPY_FREE_VARS       where there are free variables
    RESUME
    PUSH_NULL  or  LOAD_FAST 0, LOAD_CONST i, BINARY_SUBSCR          for each slot of the stack, bottom first
    LOAD_FAST 0, LOAD_CONST i, BINARY_SUBSCR, STORE_FAST slot        for each bound variable
    MAKE_CELL slot                                                   for each cell that isn't among them
    JUMP_FORWARD         to the offset

The exception table's offsets are moved by the prefix's length, and the line table gets an entry without a line for it.

The `bytecode` library assembles the prefix. It is not asked to take the rest apart and assemble it anew: over 3,500
functions of the standard library that never failed on 3.11, 3.12 or 3.13, but what came back differed from the original
in one of ten (3.11) to one of five (3.13): other jumps, exception ranges or positions. A tail whose body is the very
bytes of the original leaves nothing to compare.
"""

from __future__ import annotations

import dis
import inspect
import itertools
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from bytecode import ConcreteInstr

from minicompile.frontend import hook
from minicompile.frontend.versions import exception_table, inline_cache_units

_UNFINISHED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NO_LINE = 15  # the line table's code for "these units belong to no line"


def resume_function(
    code: CodeType, offset: int, *, local_names: tuple[str, ...], stack: tuple[bool, ...], raising: bool = False
) -> CodeType:
    """Code of a function of one argument that goes on with `code` at `offset`.

    Args:
        code: of a plain function (no generator or coroutine).
        offset: of the instruction to go on with, in bytes. Not one inside an `except` block or the exit of a `with`
            that an exception is passing through: the exception being handled is the interpreter's state, not the
            frame's.
        local_names: all the bound variables, in the order of their values in the argument (CPython reads a variable
            that it knows to be bound without a check: leaving one out would crash). For a variable that lives in a
            cell (`co_cellvars`, `co_freevars`) the value is the cell itself; free variables may be left out, since the
            function made from the code has them in its closure.
        stack: the value stack, bottom first: True for a value, False for a NULL.
        raising: go on as if the instruction had raised the exception that is the last item of the argument. A handler
            must cover it, and `stack` is what the handler leaves of the stack.

    Returns:
        Code whose one argument is a tuple: values of `local_names`, then the stack's values (no entries for NULLs).
        Make a function of it with the original's globals and closure.

    Raises:
        ValueError: a name that `code` doesn't have, an offset outside it, or code that can't be resumed.
    """
    _check(code, offset, local_names)
    if code.co_nlocals == 0:
        code = _with_a_local(code)
    slots = _variable_slots(code)
    prefix = _Prefix(code)
    indices = itertools.count(len(local_names))
    for is_value in stack:
        prefix.load_item(next(indices)) if is_value else prefix.emit("PUSH_NULL")
    if raising:
        prefix.load_item(next(indices))
    prefix.restore_variables([slots[name] for name in local_names])
    if raising:
        prefix.raise_as_at(code, offset)
    else:
        prefix.jump(_start_of(code.co_code, offset))
    return prefix.before(code, extra_stack=len(stack) + 4)


class EagerTail:
    """Calls tails; makes the code for each (code, offset, layout) once.

    The codes are kept for as long as this object lives. Frames of a tail are never hooked; what they call is.
    """

    def __init__(self) -> None:
        self._tails: dict[tuple, tuple[CodeType, CodeType]] = {}  # also keeps the original: its id is in the key

    def code(
        self,
        code: CodeType,
        offset: int,
        *,
        local_names: tuple[str, ...],
        stack: tuple[bool, ...],
        raising: bool = False,
    ) -> CodeType:
        """`resume_function`, cached."""
        key = id(code), offset, local_names, stack, raising  # by identity: equal code may stand in another file
        if key not in self._tails:
            tail = resume_function(code, offset, local_names=local_names, stack=stack, raising=raising)
            hook.skip(tail)
            self._tails[key] = code, tail
        return self._tails[key][1]

    def function(
        self,
        function: FunctionType,
        offset: int,
        *,
        local_names: tuple[str, ...],
        stack: tuple[bool, ...],
        raising: bool = False,
    ) -> FunctionType:
        """A function of one tuple that goes on with `function` at `offset`, with its globals and closure."""
        tail = self.code(function.__code__, offset, local_names=local_names, stack=stack, raising=raising)
        return FunctionType(tail, function.__globals__, function.__name__, None, function.__closure__)

    def __call__(
        self,
        function: FunctionType,
        offset: int,
        state: tuple[Any, ...],
        *,
        local_names: tuple[str, ...],
        stack: tuple[bool, ...],
    ) -> Any:
        """Go on now: what `function` would have returned, or raised."""
        return self.function(function, offset, local_names=local_names, stack=stack)(state)


class _Prefix:
    """The instructions before the jump. The argument is in slot 0, whatever variable that is, until the end."""

    def __init__(self, code: CodeType):
        self._bytes = bytearray()
        self._consts = list(code.co_consts)
        self._handler: tuple[int, int, int, bool] | None = None
        self._cells = [i for i, name in enumerate(_slot_names(code)) if name in code.co_cellvars]
        if code.co_freevars:
            self.emit("COPY_FREE_VARS", len(code.co_freevars))
        self.emit("RESUME", 0)

    def emit(self, name: str, *argument: int) -> None:
        """Append an instruction, with the EXTENDED_ARGs and the inline cache that belong to it."""
        instruction = ConcreteInstr(name, *argument)
        self._bytes += instruction.assemble() + bytes(2 * instruction.use_cache_opcodes())

    def load_item(self, index: int) -> None:
        """Push item `index` of the argument."""
        self.emit("LOAD_FAST", 0)
        self.emit("LOAD_CONST", len(self._consts))
        self.emit("BINARY_SUBSCR")
        self._consts.append(index)

    def restore_variables(self, slots: list[int]) -> None:
        """Item i of the argument becomes the variable in slots[i]; cells that have no value yet are made."""
        for index, slot in sorted(enumerate(slots), key=lambda pair: pair[1], reverse=True):  # slot 0 comes last
            self.load_item(index)
            self.emit("STORE_FAST", slot)
        if 0 not in slots:
            self.emit("DELETE_FAST", 0)
        for slot in self._cells:
            if slot not in slots:
                self.emit("MAKE_CELL", slot)

    def jump(self, offset: int) -> None:
        """Jump to what will be at `offset` of the code that follows."""
        self.emit("JUMP_FORWARD", offset // 2)

    def raise_as_at(self, code: CodeType, offset: int) -> None:
        """Raise the exception on top of the stack, under the handler of the instruction at `offset`."""
        covering = (entry for entry in exception_table(code) if entry[0] <= offset < entry[1])
        _, _, target, depth, pushes_offset = next(covering)
        self._handler = (len(self._bytes) // 2, target // 2, depth, pushes_offset)
        self.emit("RERAISE", 0)

    def exception_table(self, code: CodeType, units: int) -> bytes:
        """That of the code, moved, behind the entry for our own raise."""
        own = b""
        if self._handler is not None:
            start, target, depth, pushes_offset = self._handler
            own = _table_entry(start, 1, units + target, depth << 1 | pushes_offset)
        return own + _moved_exception_table(code.co_exceptiontable, units)

    def before(self, code: CodeType, extra_stack: int) -> CodeType:
        """The finished code object."""
        units = len(self._bytes) // 2
        return code.replace(
            co_code=bytes(self._bytes) + code.co_code,
            co_consts=tuple(self._consts),
            co_exceptiontable=self.exception_table(code, units),
            co_linetable=_lines_without_number(units) + code.co_linetable,
            co_argcount=1,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
            co_stacksize=max(code.co_stacksize, extra_stack),
        )


def _check(code: CodeType, offset: int, local_names: tuple[str, ...]) -> None:
    if code.co_flags & _UNFINISHED:
        raise ValueError(f"{code.co_qualname} is a generator or a coroutine")
    if offset % 2 or not 0 <= offset < len(code.co_code):
        raise ValueError(f"{code.co_qualname} has no instruction at offset {offset}")
    unknown = set(local_names) - set(_slot_names(code))
    if unknown or len(set(local_names)) < len(local_names):
        raise ValueError(f"not distinct variables of {code.co_qualname}: {', '.join(local_names)}")


def _slot_names(code: CodeType) -> list[str]:
    """The names of a frame's slots: locals, cells that are no arguments, free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def _variable_slots(code: CodeType) -> dict[str, int]:
    return {name: slot for slot, name in enumerate(_slot_names(code))}


def _start_of(instructions: bytes, offset: int) -> int:
    """Where the instruction at `offset` begins: at its first EXTENDED_ARG."""
    while offset and instructions[offset - 2] == dis.EXTENDED_ARG:
        offset -= 2
    return offset


def _with_a_local(code: CodeType) -> CodeType:
    """The same code with one more variable, in slot 0, for the argument of the tail: cells and free variables move up.

    Only for code without locals, in which each instruction with a slot for argument has that of a cell.
    """
    instructions = bytearray(code.co_code)
    slotted = {*dis.haslocal, *dis.hasfree}
    at = 0
    while at < len(instructions):
        opcode = instructions[at]
        if opcode in slotted:
            if instructions[at + 1] == 255 or (at and instructions[at - 2] == dis.EXTENDED_ARG):
                raise ValueError(f"{code.co_qualname} has no local and too many cells")
            instructions[at + 1] += 1
        at += 2 + 2 * inline_cache_units(dis.opname[opcode])
    return code.replace(co_code=bytes(instructions), co_varnames=("<state>",), co_nlocals=1)


def _lines_without_number(units: int) -> bytes:
    """Line table entries that say "no line" for `units` code units, at most eight to an entry."""
    lengths = [8] * (units // 8) + ([units % 8] if units % 8 else [])
    return bytes(0x80 | _NO_LINE << 3 | length - 1 for length in lengths)


def _moved_exception_table(table: bytes, units: int) -> bytes:
    """The table for the same code `units` further on. An entry: start, length, target, depth and flag."""
    numbers = list(_read_numbers(table))
    moved = bytearray()
    for i in range(0, len(numbers), 4):
        start, length, target, depth = numbers[i : i + 4]
        moved += _table_entry(start + units, length, target + units, depth)
    return bytes(moved)


def _table_entry(*numbers: int) -> bytes:
    """Four numbers as an entry of an exception table; a bit marks its first byte."""
    entry = b"".join(map(_number, numbers))
    return bytes([entry[0] | 0x80]) + entry[1:]


def _read_numbers(table: Sequence[int]) -> Iterator[int]:
    """Big-endian numbers of six bits a byte; 0x40 says that more bytes follow."""
    value = 0
    for byte in table:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            yield value
            value = 0


def _number(value: int) -> bytes:
    digits = [value & 0x3F]
    while value := value >> 6:
        digits.append(value & 0x3F | 0x40)
    return bytes(reversed(digits))
