"""Places of extrema in C++: a row is not searched for its extremum but the block that held it.

In: a row kernel's loops. Out: which of them look for an extremum whose place the next loop looks for, and their text.

The place of an extremum is the least index at which the row equals it, or is NaN (lowering/rules_scan.py): a second
loop over the row. The first one knows more than the extremum. It joins blocks in order, so it can note where the block
began that was first to have it. Measured on rows of 4096 floats from memory, two threads: 0.68 to 0.7 of the time, most
of it because the loop that waits for memory now asks for the next row, and does not stop for a second one to work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.symbols import dim_text
from .cpp_reduce import Accumulator
from .kernel_ir import Axis, Value, sinks

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

SHORTEST = 1024
"""Elements that a row must have to be walked in blocks."""

BLOCK = 256
"""Elements of a block: rows of 4096 take 0.95 to 0.98 of the time of blocks of 512, of which more is searched."""

NOWHERE = "0x7fffffff"
"""Further than any place in a block."""


@dataclass(frozen=True)
class Extremum(Accumulator):
    """The reduction that looks for it, and notes the block. NaN is the first to be the extremum, and the last."""

    @property
    def place(self) -> str:
        return f"place_{self.name}"

    def declare_total(self) -> str:
        return f"{super().declare_total()} int64_t {self.place} = 0;"

    def join(self, part: str) -> str:
        """`begin` is the block's, in the loop over blocks (cpp_rows.py)."""
        beaten = f"!({part} {'<=' if self.kind == 'amax' else '>='} {self.total}) & ({self.total} == {self.total})"
        return f"if ({beaten}) {{ {self.total} = {part}; {self.place} = begin; }}"


@dataclass(frozen=True)
class Place:
    """`extremum` is the reduction of one loop; the next one does nothing but find where the row `is_there`, of which
    `place` is the least index."""

    extremum: Value
    place: Value
    is_there: Value


def places(rows: RowPrinter) -> dict[int, Place]:
    """Loops that look for an extremum → what the next one looks for."""
    if rows.splits_row or len(rows.inner) != 1 or rows.inner[0].hint < SHORTEST:
        return {}
    found = ((k, _place(rows, k)) for k in range(len(rows.stages.loops) - 1))
    return {k: place for k, place in found if place is not None}


def _place(rows: RowPrinter, k: int) -> Place | None:
    here, there = map(sinks, rows.stages.loops[k : k + 2])
    if k + 1 in rows.stages.kept.values() or len(there) != 1:
        return None
    is_there = _sought(there[0], rows.inner[0])
    extremum = None if is_there is None else _extremum(is_there)
    return Place(extremum, there[0], is_there) if extremum is not None and is_there and extremum in here else None


def _sought(least: Value, axis: Axis) -> Value | None:
    """The condition under which an index of the row counts, of a reduction to the least index that does."""
    if least.op != "reduce" or least.attrs["kind"] != "amin" or least.args[0].op != "where":
        return None
    condition, index, other = least.args[0].args
    is_place = index.op == "index" and index.attrs["index"].text() == axis.name
    return condition if is_place and other.op in ("const", "size") else None


def _extremum(is_there: Value) -> Value | None:
    """What the row's elements are compared with by x == extremum(x), or by that or isnan(x)."""
    equal = is_there.args[0] if is_there.op == "logical_or" else is_there
    if equal.op != "eq":
        return None
    element, extremum = equal.args
    if extremum.op != "reduce" or extremum.attrs["kind"] not in ("amax", "amin") or extremum.args[0] is not element:
        return None
    others = is_there.args[1:] if is_there.op == "logical_or" else ()
    return extremum if all(other.op == "isnan" and other.args[0] is element for other in others) else None


def print_search(rows: RowPrinter, k: int) -> None:
    """What loop k + 1 is for, in the block that loop k noted."""
    place, axis, out = rows.places[k], rows.inner[0], rows.out
    name, size = rows.names[place.place], dim_text(axis.size, "cpp")
    begin = f"place_{rows.names[place.extremum]}"
    done = (place.place, place.place.args[0], place.place.args[0].args[1])
    out.add(f"int32_t found_{name} = {NOWHERE};",
            f"const int64_t end_{name} = {begin} + {BLOCK} < {size} ? {begin} + {BLOCK} : {size};",
            f"#pragma omp simd reduction(min:found_{name})")
    out.open(f"for (int64_t {axis.name} = {begin}; {axis.name} < end_{name}; ++{axis.name})")
    out.add(*(rows.statement(value, k + 1) for value in rows.stages.loops[k + 1] if value not in done),
            f"const int32_t at = {rows.names[place.is_there]} ? (int32_t)({axis.name} - {begin}) : {NOWHERE};",
            f"found_{name} = at < found_{name} ? at : found_{name};")
    out.close()
    out.add(f"const int64_t {name} = {begin} + found_{name};")
