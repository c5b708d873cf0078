"""Column kernels in C++: reductions across memory (a sum over dimension 0, a softmax over channels).

In: a reduction `Kernel` whose loads are contiguous along a parallel axis, the *lane* axis. Out: its C++ function.

A tile of neighbouring rows is computed together: the reduce loops run outside, the lanes of the tile inside and
vectorised, so that memory is read as it lies. What a row kernel holds in a scalar, a row-level value, is here an
array over the lanes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from ..ir.symbols import dim_text, dims_product
from .cpp_lanes import cost_of
from .cpp_reduce import Accumulator
from .cpp_rows import RECOMPUTE, RowPrinter
from .cpp_text import CPP_TYPES
from .kernel_ir import Axis, Kernel, Value
from .stages import LEAVES, Stages, stage

L1 = 32 << 10
"""Bytes of a tile's arrays at most, when nothing is kept between loops: the wider the tile, the longer the stretches of
memory, and the fewer pages are met again for each tile. 8192 × 4096 floats on two threads (AMD): 512 lanes took 1.45 of
the time of 2048."""

NARROW = 128
"""Lanes of a tile that several loops find in the caches, and of any at least."""

L2 = 1 << 20
"""Bytes of such a tile at most."""

KEPT_BYTES = 1 << 18
"""Kept values of a tile at most; they should stay in L2."""

RUN = 16
"""Elements of a column that are added in float before they go into a double."""

LANE_BYTES = 4
"""Bytes of a tile's arrays for each byte of an accumulator: the run's, the total's, which may be wider, the result."""

AT_ONCE = 4
"""Rows that a light loop adds up at once; the processor's own prefetcher follows each of them."""


def is_light(loop: Sequence[Value]) -> bool:
    """Whether a row's work is so little that memory, and the accumulators' way to L1 and back, set the pace."""
    return sum(value.op == "reduce" for value in loop) == 1 and cost_of(loop) <= 2


class ColumnPrinter(RowPrinter):
    """See the module's docstring."""

    stores_past_caches = False
    joins_softmaxes = False

    def __init__(self, kernel: Kernel, lane: Axis) -> None:
        self.lane = lane
        super().__init__(kernel)
        self.outer = tuple(axis for axis in self.outer if axis is not lane)
        self.tile = NARROW if self._comes_back() else self._widest()

    def _comes_back(self) -> bool:
        """Whether a later loop finds a tile in the caches."""
        row = sum(load.attrs["buffer"].dtype.itemsize for load in self.kernel.body if load.op == "load")
        return len(self.stages.loops) > 1 and self.kernel.hint("reduce") * row * NARROW <= L2

    def _widest(self) -> int:
        """Lanes whose arrays fit L1."""
        return L1 // sum(LANE_BYTES * value.dtype.itemsize for value in self.kernel.body if value.op == "reduce")

    def plan(self) -> Stages:
        size = self.kernel.size("reduce")
        fits = isinstance(size, int) and size * NARROW * 8 <= KEPT_BYTES
        return stage(self.kernel, frozenset(axis.name for axis in self.inner), RECOMPUTE if fits else 1 << 30)

    def body(self) -> None:
        size = dim_text(self.lane.size, "cpp")
        others = dim_text(dims_product(axis.size for axis in self.outer), "cpp")
        self.out.add(f"const int64_t width = mc_tile({size}, {others}, {NARROW}, {self.tile});")
        with nullcontext() if self._is_small() else self._threads("parallel for", len(self.outer) + 1):
            for axis in self.outer:
                self.out.open(self._for(axis))
            self.out.open(f"for (int64_t tile = 0; tile < {size}; tile += width)")
            self.out.add(f"const int64_t lanes = tile + width < {size} ? width : {size} - tile;")
            self._declare_arrays()
            for k, loop in enumerate(self.stages.loops):
                self._row_values(k)
                self._column_loop(k, loop)
            self._row_values(len(self.stages.loops))
            for _ in range(len(self.outer) + 1):
                self.out.close()

    def _declare_arrays(self) -> None:
        rows = [v for v in self.kernel.body if v not in self.stages.block and v.op not in (*LEAVES, "store")]
        for value in rows:
            self.out.add(f"alignas(64) {CPP_TYPES[value.dtype]} rows_{self.names[value]}[{self.tile}];")
        size = dim_text(dims_product(axis.size for axis in self.inner), "cpp")
        for value, name in self.kept.items():
            self.out.add(f"alignas(64) {CPP_TYPES[value.dtype]} {name}[{size} * {self.tile}];")
        for value in self.kernel.body:
            if value.op in LEAVES:
                self.out.add(self.statement(value, 0))

    def _lanes(self, simd: bool = True) -> None:
        if simd:
            self.out.add("#pragma omp simd")
        self.out.open("for (int64_t lane = 0; lane < lanes; ++lane)")
        self.out.add(f"const int64_t {self.lane.name} = tile + lane;")

    def _fetch(self, values: Sequence[Value]) -> None:
        """Bring the row-level values that these instructions read, and do not make themselves, from their arrays."""
        made = set(values)
        needed = dict.fromkeys(arg for value in values if not self._read_back(value) for arg in value.args)
        for arg in needed:
            if arg not in made and arg not in self.stages.block and arg.op not in LEAVES:
                name = self.names[arg]
                self.out.add(f"const {CPP_TYPES[arg.dtype]} {name} = rows_{name}[lane];")

    def _read_back(self, value: Value) -> bool:
        return value in self.kept and self.stages.kept[value] < self.current

    def _row_values(self, k: int) -> None:
        values = [value for value in self.stages.rows[k] if value.op not in LEAVES]
        if not values:
            return
        self.current = k
        self._lanes()
        self._fetch(values)
        for value in values:
            self.out.add(self.statement(value, k))
            if value.op != "store":
                self.out.add(f"rows_{self.names[value]}[lane] = {self.names[value]};")
        self.out.close()

    def _column_loop(self, k: int, loop: Sequence[Value]) -> None:
        self.current = k
        accumulators = [Accumulator(value, self.names[value]) for value in loop if value.op == "reduce"]
        for acc in accumulators:
            self.out.add(f"alignas(64) {acc.total_type} total_{acc.name}[{self.tile}];",
                         f"alignas(64) {acc.type} run_{acc.name}[{self.tile}];")
        self._fill("total", accumulators)
        for axis in self.inner[:-1]:
            self.out.open(self._for(axis))
        self._runs_of(self.inner[-1], k, loop, accumulators)
        for _ in self.inner[:-1]:
            self.out.close()
        for acc in accumulators:
            self.out.add("#pragma omp simd", f"for (int64_t lane = 0; lane < lanes; ++lane) "
                         f"rows_{acc.name}[lane] = ({acc.type})total_{acc.name}[lane];")

    def _fill(self, what: str, accumulators: Sequence[Accumulator]) -> None:
        for acc in accumulators:
            self.out.add(f"for (int64_t lane = 0; lane < lanes; ++lane) {what}_{acc.name}[lane] = {acc.identity()};")

    def _runs_of(self, axis: Axis, k: int, loop: Sequence[Value], accumulators: Sequence[Accumulator]) -> None:
        """The last reduce axis in runs, each run joined into the totals."""
        size, name = dim_text(axis.size, "cpp"), axis.name
        with self.out.blocks("begin", "end", "0", size, RUN):
            self._fill("run", accumulators)
            if is_light(loop):
                whole = f"begin + (end - begin) / {AT_ONCE} * {AT_ONCE}"
                self._rows_of(name, "begin", whole, AT_ONCE, k, loop)
                if not isinstance(axis.size, int) or axis.size % AT_ONCE:
                    self._rows_of(name, whole, "end", 1, k, loop)
            else:
                self._rows_of(name, "begin", "end", 1, k, loop)
            for acc in accumulators:
                joined = acc.combined(f"total_{acc.name}[lane]", f"run_{acc.name}[lane]")
                self.out.add("#pragma omp simd",
                             f"for (int64_t lane = 0; lane < lanes; ++lane) total_{acc.name}[lane] = {joined};")

    def _rows_of(self, name: str, begin: str, end: str, count: int, k: int, loop: Sequence[Value]) -> None:
        """Rows from `begin` to `end`, so many at once: an accumulator is loaded and stored once for all of them."""
        self.out.open(f"for (int64_t row = {begin}; row < {end}; row += {count})")
        self._lanes()
        for number in range(count):
            self.out.open("")
            self.out.add(f"const int64_t {name} = row + {number};")
            self._fetch(loop)
            self._block(loop, k)
            self.out.close()
        self.out.close()
        self.out.close()

    def statement(self, value: Value, k: int) -> str:
        if value.op == "reduce":
            acc = Accumulator(value, self.names[value])
            run = f"run_{acc.name}[lane]"
            return f"{run} = {acc.combined(run, self.names[value.args[0]])};"
        return super().statement(value, k)

    def position(self) -> str:
        return f"({super().position()})*{self.tile} + lane"

    def total(self, value: Value) -> str:
        return super().total(value) + "[lane]"
