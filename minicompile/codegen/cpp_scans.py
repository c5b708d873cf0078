"""Scans in C++: several rows side by side, so that the processor does not wait for one row's chain of additions.

In: a `Kernel` that scans its rows (cumsum, cumprod). Out: the text of its C++ function.

Each element of a running sum waits four cycles for the one before it; eight rows at a time fill them. Every row is
still summed in order, by the carry that eager uses. Rows that are walked more than once, or that need values of their
own before the walk, go one by one as in any row kernel.

Rows whose starts are a multiple of 2 KiB apart share two sets of L1, which hold eight lines each: those of eight rows
and of their results push each other out, for every element. Such rows are brought into tiles, a line of each at a time
(4096 × 1024 floats, AMD: 0.12 to 0.9 of the time, by where the result lies; rows of 1000 floats 1.06)."""

from __future__ import annotations

from ..ir.symbols import dim_text
from ..runtime.cpu import simd_name
from .cpp_rows import RowPrinter
from .cpp_text import CPP_TYPES, element_text
from .kernel_ir import Axis, Kernel, Value
from .stages import LEAVES

TOGETHER = 8
"""Rows walked side by side; their carries stay in registers, and are two vectors of AVX2's doubles."""

ALONG = 16
"""Elements of a row in a tile: a line of floats."""

SETS = 2048
"""Bytes between rows that share sets of L1: half of the way around it."""


def has_scan(kernel: Kernel) -> bool:
    return any(value.op == "scan" for value in kernel.body)


class ScanPrinter(RowPrinter):
    """See the module's docstring."""

    stores_past_caches = False
    joins_loops = False

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.side_by_side = False
        moved = [value for value in kernel.body if value.op in ("load", "store")]
        tiled = all(map(self._lies_in_tiles, moved))  # gcc takes 15 s for loops that gather beside tiles
        self.tiles = {value: f"tile_{self.names[value]}" for value in moved} if tiled else {}

    def _lies_in_tiles(self, value: Value) -> bool:
        """Whether this load or store is of rows that share sets of L1, as far as is known."""
        if value.args[value.op == "store" :] or not self.outer or not self.inner:
            return False
        index, size = value.attrs["index"], value.attrs["buffer"].dtype.itemsize
        apart = index.coefficient(self.outer[-1].name)
        shared = not isinstance(apart, int) or apart != 0 and apart * size % SETS == 0
        return size >= 4 and shared and index.is_contiguous(self.inner[-1].name) and simd_name() == "avx2"

    def body(self) -> None:
        if not self._is_one_walk() or self._is_small():
            return super().body()
        *others, rows = self.outer
        with self._threads("parallel for", len(self.outer)):
            for axis in others:
                self.out.open(self._for(axis))
            size, first = dim_text(rows.size, "cpp"), f"{rows.name}_first"
            self.out.open(f"for (int64_t {first} = 0; {first} < {size}; {first} += {TOGETHER})")
            self._rows(0)
            self.out.open(f"if ({first} + {TOGETHER} <= {size})")
            self._walk_together(rows.name)
            self.out.close()
            self.out.open(f"else for (int64_t {rows.name} = {first}; {rows.name} < {size}; ++{rows.name})")
            self._loop(0, self.stages.loops[0])
            self.out.close()
            for _ in self.outer:
                self.out.close()
        return None

    def _is_one_walk(self) -> bool:
        """Whether rows need no more than one loop over their elements, with nothing but constants outside of it."""
        plan, loops = self.stages, self.stages.loops
        return (
            bool(self.outer)
            and len(self.inner) == 1
            and len(loops) == 1
            and not plan.kept
            and not any(value.op == "reduce" for value in loops[0])
            and all(value.op in LEAVES for values in plan.rows for value in values)
        )

    def _walk_together(self, row: str) -> None:
        loop = self.stages.loops[0]
        for value in loop:
            if value.op == "scan":
                declared, _, start = self._declare_carry(value).rstrip(";").partition(" = ")
                self.out.add(f"{declared}[{TOGETHER}];", f"for (int lane = 0; lane < {TOGETHER}; ++lane) "
                             f"carry_{self.names[value]}[lane] = {start};")
        axis = self.inner[0]
        if self.tiles:
            with self.out.blocks("part", "stop", "0", dim_text(axis.size, "cpp"), ALONG):
                self._walk_tiles(row, axis)
        else:
            self.out.open(self._for(axis))
            self._step(row, f"#pragma GCC unroll {TOGETHER}")
            self.out.close()

    def _walk_tiles(self, row: str, axis: Axis) -> None:
        """[part, stop) of each row, to and from tiles that hold the rows' elements of one place side by side."""
        for value, tile in self.tiles.items():
            self.out.add(f"alignas(64) {CPP_TYPES[value.attrs['buffer'].dtype]} {tile}[{ALONG * TOGETHER}];")
        start = f"const int64_t {row} = {row}_first, {axis.name} = part;"
        for value, tile in self.tiles.items():
            if value.op == "load":
                begin, apart = self._start(value, row)
                copy = f"mc_transpose({begin}, {apart}, {tile}, {TOGETHER}, stop - part, {TOGETHER});"
                self.out.add(f"{{ {start} {copy} }}")
        self.out.open(f"for (int64_t {axis.name} = part; {axis.name} < stop; ++{axis.name})")
        self._step(row, "#pragma omp simd")
        self.out.close()
        for value, tile in self.tiles.items():
            if value.op == "store":
                begin, apart = self._start(value, row)
                copy = f"mc_transpose({tile}, {TOGETHER}, {begin}, {apart}, {TOGETHER}, stop - part);"
                self.out.add(f"{{ {start} {copy} }}")

    def _start(self, value: Value, row: str) -> tuple[str, str]:
        """Where a tile begins in memory, and how far its rows are apart."""
        return f"&{element_text(value)}", dim_text(value.attrs["index"].coefficient(row), "cpp")

    def _step(self, row: str, pragma: str) -> None:
        """One element of each row."""
        self.out.add(pragma)
        self.out.open(f"for (int lane = 0; lane < {TOGETHER}; ++lane)")
        self.out.add(f"const int64_t {row} = {row}_first + lane;")
        self.side_by_side = True
        self._block(self.stages.loops[0])
        self.side_by_side = False
        self.out.close()

    def statement(self, value: Value, k: int) -> str:
        text = super().statement(value, k)
        if not self.side_by_side or value not in self.tiles:
            return text
        place = f"{self.tiles[value]}[({self.inner[0].name} - part) * {TOGETHER} + lane]"
        left, _, right = text.partition(" = ")
        return f"{left} = {place};" if value.op == "load" else f"{place} = {right}"

    def carry(self, value: Value) -> str:
        return super().carry(value) + ("[lane]" if self.side_by_side else "")
