"""The kernel IR: one kernel as data, with no target's shape.

In: nothing; `lower_kernel` makes these, both printers read them.
Out: `Kernel`: iteration axes (parallel and reduce), buffers, and straight-line SSA over single elements: load,
constant, index, size, cast, a row of the op table, reduce, store. Views have vanished into affine index expressions.

A printer decides how axes become loops or blocks. An instruction therefore says nothing about where it stands: a
value is *block-level* when it differs along the reduce axes, *row-level* when it does not, and that follows from the
data.

Registers hold float32 for float16 and bfloat16: eager rounds after every op, a kernel only where a value is stored,
where a reduction ends and where the user casts. The result is at least as accurate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..ir.graph import Origin
from ..ir.symbols import dim_text, dims_product, free_symbols
from ..ir.types import Dim, dtype_name

MEMORY_ERROR, INDEX_ERROR = 1, 2
"""What a kernel returns when it found no memory, or an index that eager would refuse."""

HALF = (torch.float16, torch.bfloat16)


def register_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a kernel computes on values of `dtype`."""
    return torch.float32 if dtype in HALF else dtype


@dataclass(frozen=True)
class Axis:
    """One iteration axis. `kind` is `"parallel"` or `"reduce"`; `hint` the size seen while tracing, for heuristics."""

    name: str
    size: Dim
    kind: str
    hint: int


@dataclass(frozen=True)
class Affine:
    """An index: offset + Σ coefficient · axis, in elements. Coefficients and offset are ints or size expressions."""

    terms: tuple[tuple[str, Dim], ...]
    offset: Dim = 0

    def coefficient(self, axis: str) -> Dim:
        return next((coefficient for name, coefficient in self.terms if name == axis), 0)

    def is_contiguous(self, axis: str) -> bool:
        """Whether neighbours along the axis lie side by side."""
        return bool(self.coefficient(axis) == 1)

    def uses(self, axes: frozenset[str]) -> bool:
        return any(name in axes for name, _ in self.terms)

    def part(self, axes: frozenset[str], offset: bool) -> Affine:
        """The terms over `axes`, with or without the offset."""
        return Affine(tuple(term for term in self.terms if term[0] in axes), self.offset if offset else 0)

    def renamed(self, names: Mapping[str, str]) -> Affine:
        """With other axes, or other places along them, in the place of these."""
        return Affine(tuple((names.get(name, name), c) for name, c in self.terms), self.offset)

    def text(self, target: str = "python") -> str:
        """The index as source text over variables named like the axes."""
        terms = [name if c == 1 else f"{name}*{dim_text(c, target)}" for name, c in self.terms]
        if self.offset != 0 or not terms:
            terms.append(dim_text(self.offset, target))
        return " + ".join(terms)


@dataclass(frozen=True)
class Buffer:
    """A tensor that the kernel reads or writes, with its storage dtype. `numel` counts the elements it touches."""

    name: str
    dtype: torch.dtype
    numel: Dim
    output: bool = False


@dataclass(frozen=True, eq=False)
class Value:
    """One SSA instruction.

    Attributes:
        op: `"load"`, `"const"`, `"index"` (an affine expression as int64), `"size"` (arithmetic on sizes, as int64, or
            as float64 where it may be fractional), `"check"` (an index that may be negative or wrong, made safe),
            `"cast"`, `"reduce"`, `"scan"` (along the one reduce axis), `"store"`, or a POINTWISE row's name.
        args: operands. Of a load: an index for each of its `strides`, then the mask if it is `masked`.
        dtype: of the register; for `cast` to a half type the register is float32 and `attrs["dtype"]` says what to
            round to.
        attrs: buffer, index (load, store, index); strides, masked (load: element index + Σ args · strides, and 0 where
            the mask is false); value (const); dim (size; check: the size that the index must stay below); wrap (check:
            whether negative ones count from the end); kind (reduce, scan: the row's name); half (scan: whether of a
            half type); block (store: whether every element of a row is written).
        origin: the user's line.
    """

    op: str
    args: tuple[Value, ...]
    dtype: torch.dtype
    attrs: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None


@dataclass(frozen=True, eq=False)
class Kernel:
    """One kernel.

    Attributes:
        axes: parallel axes first, then reduce axes; each group outermost first.
        buffers: in the order in which they are passed: outputs last.
        body: operands come before their users.
        symbols: size symbols that are passed after the buffers, in order.
        in_place: whether an output may be the memory of an input, element for element.
    """

    name: str
    axes: tuple[Axis, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Value, ...]
    symbols: tuple[str, ...]
    in_place: bool = False

    def of_kind(self, kind: str) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.kind == kind)

    @property
    def is_reduction(self) -> bool:
        """Whether rows are walked as a whole: there is a reduction or a scan."""
        return any(value.op in ("reduce", "scan") for value in self.body)

    @property
    def may_fail(self) -> bool:
        """Whether an index is checked, so that the kernel may return `INDEX_ERROR`."""
        return any(value.op == "check" for value in self.body)

    def size(self, kind: str) -> Dim:
        """Product of the sizes of the axes of a kind."""
        return dims_product(axis.size for axis in self.of_kind(kind))

    def hint(self, kind: str) -> int:
        return int(dims_product(axis.hint for axis in self.of_kind(kind)))

    def stores(self) -> Iterator[Value]:
        return (value for value in self.body if value.op == "store")

    def __str__(self) -> str:
        return print_kernel(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch(Kernel):
    """Kernels that one call runs: `text` does each one's work.

    Attributes:
        text: the kernel that is printed; it may have one symbol more than the batch, the size of its one axis.
        members: the kernels, in order.
        places: for each member, which of the batch's buffers are its own.
    """

    text: Kernel
    members: tuple[Kernel, ...]
    places: tuple[tuple[int, ...], ...]

    def sizes(self) -> list[int]:
        """What `text` gets for its last symbol, for each member; empty where it has none of its own."""
        has_own = len(self.text.symbols) > len(self.symbols)
        return [int(member.axes[0].size) for member in self.members] if has_own else []

    def __str__(self) -> str:
        return f"{len(self.members)} times {self.text}"


def sinks(loop: Iterable[Value]) -> list[Value]:
    """What a loop's other values are computed for: its reductions, scans and stores."""
    return [value for value in loop if value.op in ("reduce", "scan", "store")]


def symbols_of(kernel_axes: tuple[Axis, ...], body: tuple[Value, ...]) -> tuple[str, ...]:
    """Names of the size symbols in axes, indices and size values, sorted."""
    found: set[str] = set()
    for axis in kernel_axes:
        found |= free_symbols(axis.size)
    for value in body:
        for key in ("index", "dim"):
            item = value.attrs.get(key)
            if isinstance(item, Affine):
                found.update(*(free_symbols(c) for _, c in item.terms), free_symbols(item.offset))
            elif item is not None:
                found |= free_symbols(item)
        for stride in value.attrs.get("strides", ()):
            found |= free_symbols(stride)
    return tuple(sorted(found))


def lane_axis(kernel: Kernel) -> Axis | None:
    """The parallel axis along which most of what the reductions read is contiguous, if not the last reduce axis is."""
    reduce = kernel.of_kind("reduce")
    if not reduce or not kernel.is_reduction or any(value.op == "scan" for value in kernel.body):
        return None
    names = frozenset(axis.name for axis in reduce)
    loads = [v.attrs["index"] for v in kernel.body if v.op == "load" and v.attrs["index"].uses(names)]

    def contiguous(axis: Axis) -> int:
        return sum(elements(index) for index in loads if index.is_contiguous(axis.name))

    def elements(index: Affine) -> int:
        return math.prod(axis.hint for axis in kernel.axes if index.coefficient(axis.name) != 0)

    best = max(kernel.of_kind("parallel"), key=contiguous, default=None)
    if best is None or best.hint < 8 or contiguous(best) <= contiguous(reduce[-1]):
        return None
    return best


def print_kernel(kernel: Kernel) -> str:
    """The kernel as text, one instruction a line; what tests compare and `explain` shows."""
    names: dict[Value, str] = {}
    axes = ", ".join(f"{axis.name} {axis.kind} {dim_text(axis.size)}" for axis in kernel.axes)
    lines = [f"kernel {kernel.name}({', '.join(b.name for b in kernel.buffers)}) over {axes or 'one element'}:"]
    for value in kernel.body:
        if value.op != "store":
            names[value] = f"%{len(names)}"
        lines.append("  " + _line(value, names))
    return "\n".join(lines)


def _line(value: Value, names: dict[Value, str]) -> str:
    args = ", ".join(names[arg] for arg in value.args)
    if value.op == "store":
        return f"{value.attrs['buffer'].name}[{value.attrs['index'].text()}] = {args}"
    head = f"{names[value]}: {dtype_name(value.dtype)} = "
    if value.op == "load":
        texts = [names[arg] for arg in value.args]
        mask = f" if {texts[-1]}" if value.attrs.get("masked") else ""
        return f"{head}{value.attrs['buffer'].name}[{place_text(value, texts)}]{mask}"
    if value.op == "const":
        return f"{head}{value.attrs['value']!r}"
    if value.op == "index":
        return f"{head}index {value.attrs['index'].text()}"
    if value.op == "size":
        return f"{head}size {dim_text(value.attrs['dim'])}"
    if value.op == "cast":
        return f"{head}cast {args} to {dtype_name(value.attrs['dtype'])}"
    if value.op == "check":
        return f"{head}check {args} {'within' if value.attrs['wrap'] else 'below'} {dim_text(value.attrs['dim'])}"
    if value.op in ("reduce", "scan"):
        return f"{head}{value.op} {value.attrs['kind']} {args}"
    return f"{head}{value.op} {args}".rstrip()


def place_text(value: Value, args: Sequence[str], target: str = "python") -> str:
    """Where a load reads, as source text over the names of its operands: the affine part, and each index times its
    stride."""
    index, strides = value.attrs["index"], value.attrs.get("strides", ())
    parts = [] if strides and not index.terms and index.offset == 0 else [index.text(target)]
    for arg, stride in zip(args, strides, strict=False):
        parts.append(arg if stride == 1 else f"{arg}*{dim_text(stride, target)}")
    return " + ".join(parts)
