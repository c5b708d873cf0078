"""Texts of the explorer, line by line, each with what it belongs to.

In: source, bytecode, FX graphs, IR, kernels, wrappers, glue. Out: `Listing`s of lines `[html, keys, also]`. A line has
`keys`: `L:file.py:12` for a line of the user's, `K:0:kernel_0_exp` for a kernel of graph 0, `B:1:34` for byte 34 of
code object 1. Two lines are counterparts when a key of one is among the keys, or in the `also`, of the other.
"""

from __future__ import annotations

import dis
import linecache
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..frontend.bytecode import Decoded, decode
from ..ir.origins import call_name
from .pages import code as highlighted

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledGraph, KernelInfo

Keys = tuple[list[str], list[str]]
_COMMENT = re.compile(r"^\s*# (\S+):(\d+)(?:  |$)")
_NATIVE_HEAD = re.compile(r'^(?:extern "C" int|def) (\w+)\(')


@dataclass
class Listing:
    """One text of a pane. `title` tells it from the pane's others; `group` is the graph or entry that it belongs to."""

    title: str
    lines: list[list[Any]] = field(default_factory=list)
    group: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "group": self.group, "lines": self.lines}


class Links:
    """Which kernels each of the user's lines went into."""

    def __init__(self) -> None:
        self._kernels: dict[str, list[str]] = {}

    def add(self, graph: int, kernel: KernelInfo) -> None:
        for origin in kernel.origins:
            found = self._kernels.setdefault(line_key(origin.file, origin.line), [])
            found.append(kernel_key(graph, kernel.name))

    def of(self, line: str) -> list[str]:
        return self._kernels.get(line, [])


def line_key(file: str, line: int) -> str:
    """What links everything that came of one line of a file."""
    return f"L:{file.rsplit('/', 1)[-1]}:{line}"


def kernel_key(graph: int, name: str) -> str:
    """What links everything that belongs to a kernel of a graph."""
    return f"K:{graph}:{name}"


def listing(title: str, text: str, language: str, keys_of: Callable[[str], Keys], group: int = 0) -> Listing:
    """A highlighted text; `keys_of(line)` is asked for each line, in order."""
    html = str(highlighted(text.rstrip("\n"), language)).rstrip("\n").split("\n")
    plain = text.rstrip("\n").split("\n")
    return Listing(title, [[marked, *keys_of(line)] for marked, line in zip(html, plain, strict=True)], group)


def source_listing(code: CodeType, links: Links) -> Listing | None:
    """The text of a function, as it stands in its file; None where there is none."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    numbers = [line for each in (code, *inner) for _, _, line in each.co_lines() if line]
    first, last = min([code.co_firstlineno, *numbers]), max(numbers, default=code.co_firstlineno)
    text = "".join(linecache.getline(code.co_filename, line) or "\n" for line in range(first, last + 1))
    if not text.strip():
        return None
    lines = iter(range(first, last + 1))

    def keys_of(_: str) -> Keys:
        key = line_key(code.co_filename, next(lines))
        return [key], links.of(key)

    made = listing(f"{code.co_name}  {code.co_filename.rsplit('/', 1)[-1]}:{first}", text, "python", keys_of)
    for offset, line in enumerate(made.lines):
        line.append(first + offset)
    return made


def bytecode_listing(number: int, code: CodeType, links: Links) -> Listing:
    """CPython's instructions, with jump targets and the lines that they are for."""
    decoded = decode(code)
    lines = []
    last = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("CACHE", "PRECALL", "RESUME", "EXTENDED_ARG"):
            continue
        line = _line_at(decoded, instruction.offset)
        shown = str(line) if line != last else ""
        last = line
        mark = "»" if instruction.is_jump_target else " "
        text = f"{shown:>5} {mark}{instruction.offset:>4} {instruction.opname:<26} {instruction.argrepr}"
        key = line_key(code.co_filename, line)
        lines.append([escape(text), [f"B:{number}:{instruction.offset}", key], links.of(key)])
    return Listing(code.co_name, lines, number)


def _line_at(decoded: Decoded, offset: int) -> int:
    index = min(decoded.index_at.get(offset, 0), len(decoded.instructions) - 1)
    return decoded.instructions[index].line if decoded.instructions else decoded.code.co_firstlineno


def fx_listing(number: int, gm: Any, links: Links) -> Listing:
    """One line a node: `name = torch.relu(x)  # f32[8]`."""
    lines = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            text = f"{node.name} = input"
        elif node.op == "output":
            text = f"return {node.args[0]}"
        else:
            arguments = [*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())]
            text = f"{node.name} = {call_name(node)}({', '.join(arguments)})"
        text += _fx_type(node)
        origin = node.meta.get("origin")
        keys = [line_key(origin.file, origin.line)] if origin is not None else []
        html = str(highlighted(text, "python")).rstrip("\n")
        lines.append([html, keys, [kernel for key in keys for kernel in links.of(key)]])
    return Listing(f"graph {number}", lines, number)


def _fx_type(node: Any) -> str:
    from ..ir.types import dtype_name

    value = node.meta.get("example_value")
    if not hasattr(value, "dtype"):
        return ""
    return f"  # {dtype_name(value.dtype)}[{', '.join(map(str, value.shape))}]"


def ir_listing(title: str, number: int, text: str, links: Links) -> Listing:
    """The IR's own text: below each comment that names a line of the user's stands what came from it."""
    current: list[str] = []

    def keys_of(line: str) -> Keys:
        found = _COMMENT.match(line)
        if found:
            current[:] = [line_key(found[1], int(found[2]))]
        elif line.lstrip().startswith(("def ", "return ", "import ", "aten")) or not line.strip():
            return [], []
        return list(current), [kernel for key in current for kernel in links.of(key)]

    return listing(title, text, "python", keys_of, number)


def native_listing(title: str, number: int, text: str, language: str, kernels: Iterable[KernelInfo]) -> Listing:
    """All kernels' text: each line belongs to the kernel in which it stands."""
    lines_of = {kernel.name: [line_key(o.file, o.line) for o in kernel.origins] for kernel in kernels}
    current: list[str] = []

    def keys_of(line: str) -> Keys:
        head = _NATIVE_HEAD.match(line)
        if head:
            current[:] = [head[1]] if head[1] in lines_of else []
        if not current:
            return [], []
        keys = [kernel_key(number, current[0])], list(lines_of[current[0]])
        if line == "}":
            current.clear()
        return keys

    return listing(title, text, language, keys_of, number)


def named_listing(title: str, number: int, text: str, compiled: list[CompiledGraph], graph: int | None) -> Listing:
    """Python that calls kernels by name: a wrapper, or an entry's glue."""
    names = {kernel.name: kernel for half in compiled for kernel in half.kernels}

    def keys_of(line: str) -> Keys:
        found = [name for name in names if f"{name}(" in line]
        if graph is not None and "__graph__(" in line:
            found = list(names)
        keys = [kernel_key(graph if graph is not None else number, name) for name in found]
        return keys, [line_key(o.file, o.line) for name in found for o in names[name].origins]

    return listing(title, text, "python", keys_of, number)
