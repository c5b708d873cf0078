"""One Python frame while it is being traced.

In: a code object, its variables as values. Out: the frame's symbolic state: variables, stack, the next instruction. It
is plain data that outlives the Python call that advances it, so a frame can be left and taken up again.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .breaks import Location
from .bytecode import Decoded, Instruction
from .values.base import NULL, Value, fail
from .values.functions import CellValue

if TYPE_CHECKING:
    from .sources import Source
    from .tracer import Tracer
    from .values.containers import DictValue


class Frame:
    """The state of one frame.

    `slots` holds variables by name; a cell or free variable's slot holds its CellValue. `globals_base` is the source of
    the function whose globals count, None for the frame that is compiled itself.
    """

    def __init__(
        self,
        decoded: Decoded,
        globals_dict: dict[str, Any],
        globals_base: Source | None,
        slots: dict[str, Value],
        closure: list[CellValue],
        parent: Frame | None,
    ) -> None:
        self.decoded = decoded
        self.code = decoded.code
        self.globals_dict = globals_dict
        self.globals_base = globals_base
        self.slots = slots
        self.closure = closure
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.stack: list[Value] = []
        self.pc = 0
        self.has_yielded = False
        self.namespace: dict[str, Value] = {}
        """The names that a class body binds."""
        self.listed: DictValue | None = None
        """What `locals()` has given."""

    # ---- the stack ----

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop_raw(self) -> Value:
        """The top, as it is: perhaps lazy, so nothing depends on it yet."""
        return self.stack.pop()

    def pop(self, tr: Tracer) -> Value:
        """The top, looked at."""
        return self.stack.pop().realize(tr)

    def pop_many(self, count: int) -> list[Value]:
        """The `count` topmost values in the order in which they were pushed."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # ---- variables ----

    def load(self, name: str) -> Value:
        value = self.slots.get(name)
        if value is None:
            text = f"cannot access local variable '{name}' where it is not associated with a value"
            fail(UnboundLocalError(text), is_exact=True)
        return value

    def listing(self, tr: Tracer) -> DictValue:
        """What `locals()` gives. Before Python 3.13 a frame has one dict of its variables, which each call brings up to
        date."""
        from .values.constant import ConstantValue
        from .values.containers import DictValue

        if self.listed is None or sys.version_info >= (3, 13):
            self.listed = DictValue(dict, {})
        for name, value in self.variables().items():
            if value is not None:
                self.listed.setitem(tr, ConstantValue(name), value)
            elif name in self.listed.entries:
                self.listed.delitem(tr, ConstantValue(name))
        return self.listed

    def variables(self) -> dict[str, Value | None]:
        """What each variable holds, None for one that is not bound, in the order in which Python lists them."""
        code, contents = self.code, {}
        for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
            value = self.slots.get(name)
            contents[name] = value.contents if isinstance(value, CellValue) else value
        return contents

    def cell(self, name: str) -> CellValue:
        cell = self.slots[name]
        assert isinstance(cell, CellValue)
        return cell

    def super_arguments(self, tr: Tracer) -> tuple[Value, Value]:
        """What `super()` without arguments means here: the `__class__` cell and the first argument."""
        if "__class__" not in self.slots or not self.code.co_argcount:
            fail(RuntimeError("super(): no arguments"))
        cls = self.cell("__class__").contents
        owner: Value | None = self.slots.get(self.code.co_varnames[0])
        if isinstance(owner, CellValue):
            owner = owner.contents
        if cls is None or owner is None:
            fail(RuntimeError("super(): empty __class__ cell or deleted argument"))
        return cls, owner

    # ---- where ----

    @property
    def instruction(self) -> Instruction:
        """The one that is being executed."""
        return self.decoded.instructions[max(self.pc - 1, 0)]

    def location(self) -> Location:
        return Location(self.code.co_filename, self.instruction.line, self.code.co_name)


__all__ = ["Frame", "NULL"]
