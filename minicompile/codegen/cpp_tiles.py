"""Tile kernels in C++: pointwise work that reads some tensors along another axis than it writes (x + y.T).

In: a pointwise `Kernel` and the axis along which such *transposed* loads are contiguous. Out: its C++ function.

Rows and that axis are cut into tiles. What is read transposed is first brought, as it lies, into a small buffer that
holds the tile in the order of writing (`mc_transpose`: by squares of vectors in registers); then the tile is computed
row by row, vectorised. Each cache line is thus fetched once. Walking rows alone would fetch it once for every element
in it.

Lines of a tile lie far from each other, so that no processor foresees the next tile's: each row of a tile asks for its
share of them. Measured: x + y.T of 64 MiB three times as fast.

They lie on as many pages. Tiles follow each other along what is read transposed, on the pages of the tile before, for
`STRIP` rows: then the next column of tiles finds the rows' own pages known too. Along the rows, each tile would ask
for the addresses of 64 other pages, and the last level of the processor's table of pages has forgotten a strip's when
the next one comes: x + y.T took 1.3 of the time."""

from __future__ import annotations

from ..ir.symbols import dim_text
from .cpp_rows import GRAIN, Part, RowPrinter
from .cpp_text import CPP_TYPES
from .cpp_traffic import LINE
from .kernel_ir import Axis, Kernel, Value

ACROSS = ALONG = 64
"""Rows of a tile and elements of a row in it: four cache lines of floats each way, 16 KiB, which stay in L1. Measured
with two threads: 32 × 128 takes 0.95 of the time for 4096 × 4096 floats, 1.1 for data in L3 and 1.5 for rows of 64."""

STRIP = 512
"""Rows of a column of tiles: no more pages than the last level of a table (2048 and more) keeps of several operands.
Measured in times of a copy of as many bytes: 256 rows 1.16, 512 to 2048 1.05, all 4096 1.19, along the rows 1.31."""

STRIPPED = 8 << 20
"""Bytes that are read transposed from which that pays: the pages of 4 MiB are known anyway (1.09 of the time)."""


def is_transposed(value: Value, inner: Axis, across: Axis) -> bool:
    """Whether this load lies along `across` in memory, and not along the innermost axis."""
    if value.op != "load" or value.attrs.get("strides") or value.attrs.get("masked"):
        return False
    index = value.attrs["index"]
    return index.coefficient(inner.name) not in (0, 1) and index.is_contiguous(across.name)


def transposed_axis(kernel: Kernel) -> Axis | None:
    """The axis for which tiles pay, or None: the work is small, or nothing is read transposed."""
    parallel = kernel.of_kind("parallel")
    if kernel.is_reduction or len(parallel) < 2 or kernel.hint("parallel") <= GRAIN:
        return None
    *others, inner = parallel

    def gain(axis: Axis) -> int:
        return sum(is_transposed(value, inner, axis) for value in kernel.body)

    best = max(others, key=gain)
    return best if gain(best) and min(best.hint, inner.hint) >= 8 else None


class TilePrinter(RowPrinter):
    """See the module's docstring."""

    calls_blocks = False  # rows of a tile are short
    joins_loops = False

    def __init__(self, kernel: Kernel, across: Axis) -> None:
        self.across = across
        super().__init__(kernel)
        self.outer = tuple(axis for axis in self.outer if axis is not across)
        self.along = self.inner[0]
        self.tiles = [value for value in kernel.body if is_transposed(value, self.along, across)]

    def body(self) -> None:
        across, along = self.across.name, self.along.name
        strip = STRIP if max(map(self.traffic.touched, self.tiles)) >= STRIPPED else ACROSS
        rows, columns = dim_text(self.across.size, "cpp"), dim_text(self.along.size, "cpp")
        with self._threads("parallel for", len(self.outer) + 2):
            for axis in self.outer:
                self.out.open(self._for(axis))
            self._steps("strip", "0", rows, strip)
            self._steps(f"{along}_first", "0", columns, ALONG)
            self._end("strip_end", "strip", rows, strip)
            self._end(f"{along}_end", f"{along}_first", columns, ALONG)
            self._steps(f"{across}_first", "strip", "strip_end", ACROSS)
            self._end(f"{across}_end", f"{across}_first", "strip_end", ACROSS)
            self._next_tile(f"{across}_end < strip_end")
            for value in self.tiles:
                self._copy(value)
            self._compute()
            for _ in range(len(self.outer) + 3):
                self.out.close()

    def _steps(self, first: str, begin: str, end: str, step: int) -> None:
        self.out.open(f"for (int64_t {first} = {begin}; {first} < {end}; {first} += {step})")

    def _end(self, name: str, first: str, end: str, step: int) -> None:
        self.out.add(f"const int64_t {name} = {first} + {step} < {end} ? {first} + {step} : {end};")

    def _within(self, axis: Axis) -> str:
        return f"for (int64_t {axis.name} = {axis.name}_first; {axis.name} < {axis.name}_end; ++{axis.name})"

    def _next_tile(self, goes_on: str) -> None:
        """Where it begins: further down the column, or at the top of the next one."""
        across, along = self.across.name, self.along.name
        self.out.add(f"const int64_t {across}_next = {goes_on} ? {across}_end : strip;")
        self.out.add(f"const int64_t {along}_next = {goes_on} ? {along}_first : {along}_first + {ALONG};")

    def _copy(self, value: Value) -> None:
        """Bring a tile into the order of writing, from where it lies or, if its elements are converted, from a copy."""
        a, b, ctype = self.across.name, self.along.name, CPP_TYPES[value.dtype]
        self.out.add(f"alignas(64) {ctype} {self._tile(value)}[{ACROSS * ALONG}];")
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        right = super().statement(value, 0).partition("= ")[2]
        if right == f"{buffer.name}[{index.text('cpp')}];":
            start, stride = f"&{right[:-1]}", dim_text(index.coefficient(b), "cpp")
        else:
            start, stride = self._converted(value, right), str(ACROSS)
        self.out.add(f"{{ const int64_t {a} = {a}_first, {b} = {b}_first; "
                     f"mc_transpose({start}, {stride}, {self._tile(value)}, {ALONG}, {a}_end - {a}, {b}_end - {b}); }}")

    def _converted(self, value: Value, right: str) -> str:
        """A copy of the tile as it lies."""
        a, b, copy = self.across.name, self.along.name, f"copy_{self.names[value]}"
        self.out.add(f"alignas(64) {CPP_TYPES[value.dtype]} {copy}[{ACROSS * ALONG}];")
        self.out.open(self._within(self.along))
        self.out.add("#pragma omp simd")
        self.out.open(self._within(self.across))
        self.out.add(f"{copy}[({b} - {b}_first) * {ACROSS} + {a} - {a}_first] = {right}")
        self.out.close()
        self.out.close()
        return copy

    def _compute(self) -> None:
        loop = [value for values in self.stages.loops for value in values]
        self.out.open(self._within(self.across))
        self._rows(0)
        for value in filter(self.traffic.is_large, loop):
            self._fetch_next_tile(value)
        self._runs(Part(self.along, f"{self.along.name}_first", f"{self.along.name}_end", 0, loop))
        self._rows(1)
        self.out.close()

    def fetch_ahead(self, axis: Axis, begin: str, end: str, k: int) -> None:
        """Nothing more: each row has asked for the next tile's."""

    def _fetch_next_tile(self, value: Value) -> None:
        """This row's share of the cache lines that the load will need in the next tile."""
        a, b = self.across.name, self.along.name
        buffer, row = value.attrs["buffer"], f"{a} - {a}_first"
        in_line = LINE // buffer.dtype.itemsize
        if value in self.tiles:
            lines = max(ACROSS // in_line, 1)
            share = ALONG * lines // ACROSS
            first, last = f"({row}) * {share}", f"({row} + 1) * {share}"
            place = {a: f"{a}_next + line % {lines} * {in_line}", b: f"{b}_next + line / {lines}"}
        elif self.traffic.is_contiguous(value):
            first, last = "0", f"{max(ALONG // in_line, 1)}"
            place = {a: f"{a}_next + {row}", b: f"{b}_next + line * {in_line}"}
        else:
            return
        index = value.attrs["index"].renamed({axis: f"ahead_{axis}" for axis in place}).text("cpp")
        places = ", ".join(f"ahead_{axis} = {text}" for axis, text in place.items())
        self.out.add(f"for (int64_t line = {first}; line < {last}; ++line) {{ "
                     f"const int64_t {places}; __builtin_prefetch({buffer.name} + {index}, 0, 2); }}")

    def _tile(self, value: Value) -> str:
        return f"tile_{self.names[value]}"

    def _place(self, value: Value) -> str:
        a, b = self.across.name, self.along.name
        return f"{self._tile(value)}[({a} - {a}_first) * {ALONG} + {b} - {b}_first]"

    def statement(self, value: Value, k: int) -> str:
        if value in self.tiles:
            return f"const {CPP_TYPES[value.dtype]} {self.names[value]} = {self._place(value)};"
        return super().statement(value, k)
