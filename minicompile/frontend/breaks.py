"""Why a graph ends: kinds of graph breaks, and the exceptions by which tracing reports them.

In: a handler that meets something that cannot go into the graph raises `Break`.
Out: the translation catches it at the root frame's instruction and writes glue that performs the instruction for
real. `BreakRecord` is what users see, with their own file and line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class BreakKind(Enum):
    """What kind of thing ended a graph."""

    CALL = "unsupported call"
    BRANCH = "data-dependent branch"
    VALUE = "data-dependent value"
    INSTRUCTION = "unsupported instruction"
    EXPLICIT = "explicit graph_break()"


_HINTS = {
    BreakKind.CALL: "Move the call out of the compiled function, or replace it with torch operations.",
    BreakKind.BRANCH: "Use torch.where, or decide on a Python value instead of a tensor's.",
    BreakKind.VALUE: "Keep the value a tensor; a Python number has to be read back from memory.",
    BreakKind.INSTRUCTION: "Rewrite the line with simpler Python, or move it out of the compiled function.",
    BreakKind.EXPLICIT: "Remove the call of minicompile.graph_break().",
}


FACTS_HINT = "State what is known of it with torch._check(n > 0) or the like before it matters."
"""For numbers and sizes that depend on data."""


@dataclass(frozen=True)
class Location:
    """A place in the user's program; `line` counts from 1."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True)
class BreakRecord:
    """One graph break as the user sees it: kind, reason in one plain sentence, place, and how to remove it."""

    kind: BreakKind
    reason: str
    hint: str
    location: Location

    @property
    def file(self) -> str:
        return self.location.file

    @property
    def line(self) -> int:
        return self.location.line

    def __str__(self) -> str:
        return f"{self.location}: {self.kind.value}: {self.reason} {self.hint}"


class Break(Exception):
    """Raised while tracing: what comes next cannot go into the graph.

    `location` is filled in by the innermost traced frame that it passes.
    """

    def __init__(self, kind: BreakKind, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.hint = hint or _HINTS[kind]
        self.location: Location | None = None

    @classmethod
    def again(cls, record: BreakRecord) -> Break:
        """The break that a record tells of."""
        made = cls(record.kind, record.reason, record.hint)
        made.location = record.location
        return made

    def record(self) -> BreakRecord:
        """What the user sees. Raises AssertionError before the location is known."""
        assert self.location is not None, "a break is recorded only after a frame has put its location on it"
        return BreakRecord(self.kind, self.reason, self.hint, self.location)


def unsupported(reason: str, hint: str = "") -> Break:
    """The break for an operation on values that tracing cannot follow."""
    return Break(BreakKind.INSTRUCTION, reason, hint)


def unsupported_call(what: str, why: str = "cannot be traced", hint: str = "") -> Break:
    """The break for a call that has to be made for real."""
    return Break(BreakKind.CALL, f"The call of {what} {why}.", hint)


class UserError(Exception):
    """Tracing met an error that is the user's own (a shape mismatch, a `raise`).

    A handler of the traced program may catch it; else the frame is to run in eager, which raises it properly.

    Attributes:
        original: the error that was seen, None for one that the program raised.
        value: the exception object of the traced program, once there is one.
        is_exact: whether `original` has eager's own arguments; else the compiler has worded it.
        is_torch: whether it came from a torch function, where a fake tensor may raise otherwise than a real one.
    """

    def __init__(
        self, original: BaseException | None, value: Any = None, *, is_exact: bool = False, is_torch: bool = False
    ) -> None:
        super().__init__(original, value)
        self.original = original
        self.value = value
        self.is_exact = is_exact
        self.is_torch = is_torch

    @property
    def cls(self) -> type:
        """The class of the exception."""
        return type(self.original) if self.original is not None else self.value.cls

    def __str__(self) -> str:
        return self.cls.__name__ if self.original is None else f"{self.cls.__name__}: {self.original}"


class Restart(Exception):
    """Tracing has to begin again from the segment's start, and break at instruction number `step`."""

    def __init__(self, step: int, reason: Break) -> None:
        super().__init__(reason.reason)
        self.step = step
        self.reason = reason

    def without_frames(self) -> Restart:
        """The same without tracebacks. A frame that keeps one which it is itself part of would be kept by it, and with
        it all frames below, until the garbage collector comes by: the program's objects would not die when they do in
        eager."""
        for error in (self, self.reason):
            error.__traceback__ = error.__context__ = error.__cause__ = None
        return self


class DataWritten(Exception):
    """Memory is written that `Tensor.data` has shown of tensors from outside (`sources`): tracing has to begin again,
    with what `data` gives of them as inputs of their own."""

    def __init__(self, sources: frozenset[Any]) -> None:
        super().__init__(sources)
        self.sources = sources


class SkipFrame(Exception):
    """The frame as a whole is not for tracing (generator, too long…): it runs in eager. Its callees may be compiled,
    unless `all_below` is to run in eager as well."""

    def __init__(self, reason: str, *, all_below: bool = False) -> None:
        super().__init__(reason)
        self.all_below = all_below
