"""The symbolic interpreter's work, step by step, as plain data.

In: the interpreter's steps, as an `Observer` (frontend/observer.py). Out: a `Recording` for each translation: at every
instruction the stack, the variables, the journal's length and the graph's.

Describing a value must not touch it: a value that nothing has looked at yet stays unguarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..frontend.breaks import Break
from ..frontend.values.base import NULL, Lazy, Value
from ..frontend.values.constant import ConstantValue
from ..frontend.values.containers import DictValue, SequenceValue
from ..frontend.values.functions import CellValue
from ..frontend.values.tensor import TensorValue
from ..ir.origins import call_name
from ..ir.types import dtype_name

if TYPE_CHECKING:
    from ..frontend.bytecode import Instruction
    from ..frontend.frame import Frame
    from ..frontend.segments import Entry, Segment
    from ..frontend.tracer import Tracer

MAX_STEPS = 4000
"""Steps that are kept of one translation; a page has to stay small."""
_WIDTH = 70


@dataclass(frozen=True)
class Step:
    """Before an instruction: `code` and `offset` name it, `depth` counts inlined calls; `journal` and `nodes` count
    what there is by then."""

    code: CodeType
    offset: int
    index: int
    line: int
    depth: int
    stack: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    journal: int
    nodes: int


@dataclass
class Recording:
    """One attempt to translate a piece: its steps, the journal and graph that they grew, and how it ended.

    Attributes:
        entry: what it came to; None for an attempt that started over.
        left_out: steps beyond the limit.
    """

    name: str
    code: CodeType
    steps: list[Step] = field(default_factory=list)
    journal: list[tuple[str, str]] = field(default_factory=list)
    nodes: list[tuple[str, str]] = field(default_factory=list)
    entry: Entry | None = None
    left_out: int = 0


class Recorder:
    """An `Observer` that keeps everything it is told."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self._texts: dict[str, str] = {}

    def begin(self, segment: Segment) -> None:
        self.recordings.append(Recording(segment.name, segment.code))

    def step(self, tr: Tracer, frame: Frame, instruction: Instruction) -> None:
        if not self.recordings:
            return
        recording = self.recordings[-1]
        self._grow(recording, tr)
        if len(recording.steps) >= MAX_STEPS:
            recording.left_out += 1
            return
        stack = tuple(self._text(value) for value in frame.stack)
        variables = tuple((name, self._text(value)) for name, value in frame.slots.items())
        counts = len(recording.journal), len(recording.nodes)
        place = frame.code, instruction.offset, instruction.index, instruction.line, frame.depth
        recording.steps.append(Step(*place, stack, variables, *counts))

    def end(self, entry: Entry) -> None:
        if self.recordings:
            self.recordings[-1].entry = entry

    def _grow(self, recording: Recording, tr: Tracer) -> None:
        """Note what the last step has added to the journal and the graph."""
        for effect in list(tr.journal)[len(recording.journal) :]:
            recording.journal.append((effect.statement(), f"{effect.place.file}:{effect.place.line}"))
        graph = tr.graph.graph
        if len(graph.nodes) > len(recording.nodes):
            for node in list(graph.nodes)[len(recording.nodes) :]:
                origin = node.meta.get("origin")
                recording.nodes.append((_node_text(node), f"{origin.file}:{origin.line}" if origin else ""))

    def _text(self, value: Value) -> str:
        text = describe(value)
        return self._texts.setdefault(text, text)


def describe(value: Value | None) -> str:
    """A few words for a value, as it is known by now; shorter than a line."""
    text = _words(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _words(value: Value | None) -> str:
    if value is None:
        return "unbound"
    if value is NULL:
        return "NULL"
    if isinstance(value, Lazy):
        return describe(value.value) if value.value is not None else f"{_source(value)}, not looked at"
    if isinstance(value, CellValue):
        return f"cell of {describe(value.contents)}"
    if isinstance(value, TensorValue):
        return f"%{value.node.name}: {_tensor_type(value.fake)}"
    if isinstance(value, SequenceValue):
        return f"{value.kind.__name__}({_few(list(map(describe, value.elements[:7])))})"
    if isinstance(value, DictValue):
        return f"{value.kind.__name__}({_few([f'{key!r}: …' for key in list(value.entries)[:7]])})"
    if isinstance(value, ConstantValue):
        return repr(value.value)
    try:
        return value.describe()
    except Break:
        return type(value).__name__


def _tensor_type(fake: Any) -> str:
    return f"{dtype_name(fake.dtype)}[{', '.join(map(str, fake.shape))}]"


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:6] + ["…"] * (len(texts) > 6))


def _source(value: Value) -> str:
    return value.source.describe() if value.source is not None else "an object"


def _node_text(node: Any) -> str:
    """`add = operator.add(x, y)`."""
    if node.op == "placeholder":
        return f"{node.name} = input"
    arguments = [*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())]
    return f"{node.name} = {call_name(node)}({', '.join(arguments)})"


def codes_of(recordings: list[Recording]) -> Iterator[CodeType]:
    """Every code object that was stepped through, each once, in order."""
    seen: set[int] = set()
    for recording in recordings:
        for code in (recording.code, *(step.code for step in recording.steps)):
            if id(code) not in seen:
                seen.add(id(code))
                yield code
