"""How a row kernel's large tensors travel: results stored past the caches, operands fetched before they are asked for.

In: a kernel, its outer and inner axes, its loops. Out: which stores are *streaming* stores, and, for each loop, which
loads it fetches ahead and how far.

A plain store first reads the cache line that it then overwrites, and pushes another one out: a result too large for
the caches costs its bytes three times. A streaming store (`movntps`) costs them once. Measured with two threads beside
an L3 of 480 MiB: it takes 1.03 to 1.16 of a plain store's time for 8 to 32 MiB, 0.83 to 1 for 48 and 0.65 to 0.9 for
64; for rows of 64 floats 0.86 even at 16.

The processor's own prefetcher stops at the end of a page, and sees nothing coming while a row is worked on in cache.
A loop that walks memory once is told `AHEAD` bytes before (sums of 256 MiB: 1.4 times as fast); where a row takes
several loops, the last one that computes fetches the next row (softmax: 1.2 times, and 1.5 with streaming stores).

A next row that lies in L1 when its turn comes, rather than in L2, is worth it where block functions are computed
meanwhile: masked softmax of 512 takes 0.85 of the time, softmax of 4096 and layer_norm+gelu 0.95. Loops of additions
are through before L1's few requests are (var: 1.05). Short rows are asked for several at a time (softmax of 128,
layer_norm of 256: 0.85)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from ..ir.types import Dim
from ..runtime.cpu import last_cache_bytes, simd_name
from .kernel_ir import Affine, Axis, Kernel, Value

STREAMED = min(32 << 20, max(8 << 20, last_cache_bytes() // 15))
"""Bytes of a result from which it is stored past the caches: no less than twice the L2 caches of two cores."""

STREAMED_ROWS = 8 << 20
"""The same of one stored in rows of less than `LONG` bytes, for whose lines the processor does not ask in advance."""

LONG = 2048

FETCHED = 4 << 20
"""Bytes of an operand from which it is fetched ahead: less may lie in a cache from the call before."""

FETCHED_ONCE = 2 * STREAMED
"""The same where nothing is reduced. What the last cache holds comes fast enough for elements that wait for no others;
to ask for it takes up to an eighth longer (16 MiB), for 90 MiB not to ask 1.3 times as long."""

AHEAD = 16 << 10
"""Bytes by which a single loop fetches ahead: four pages. Measured: 4 KiB is a tenth slower, 32 KiB no faster."""

ROW = 256 << 10
"""Bytes of a row up to which the next row is fetched whole: it and the current one must fit a core's L2."""

IN_L1 = 16 << 10
"""Bytes of a row up to which the next one is fetched into L1 (cross_entropy's 128 KiB: 1.14 times as long)."""

NEAR = 3 << 10
"""Bytes to fetch ahead at least, in whole rows: shorter rows are over before memory has answered."""

LINE = 64
"""Bytes of a cache line."""

STREAMING = ("avx512", "avx2", "avx", "sse2")
"""Instruction sets with streaming stores that gcc's builtins reach."""


@dataclass(frozen=True)
class Fetch:
    """What a loop asks memory for: `load`, `distance` elements from the loop's own position, into that cache."""

    load: Value
    distance: Dim
    cache: Literal["L1", "L2"] = "L2"


@dataclass(frozen=True)
class Traffic:
    """The plan of one kernel. `loops` are the stages' loops, one that does not walk the row empty; `heavy[k]` says
    whether loop k computes in blocks."""

    kernel: Kernel
    outer: Sequence[Axis]
    inner: Sequence[Axis]
    loops: Sequence[Sequence[Value]]
    heavy: Sequence[bool]

    def streams(self, store: Value) -> bool:
        """Whether this is a store to go past the caches: of neighbouring elements, whole lines, and many of them."""
        if store.op != "store" or not self.inner or simd_name() not in STREAMING:
            return False
        size = store.attrs["buffer"].dtype.itemsize
        row = self.inner[-1].hint * size
        whole = row % LINE == 0 or row >= LONG
        least = STREAMED if row >= LONG else STREAMED_ROWS
        return whole and self.is_contiguous(store) and self.touched(store) >= least

    def ahead(self, k: int) -> list[Fetch]:
        """What loop k fetches."""
        return self._fetched[k] if k < len(self.loops) else []  # none at all: one place is stored, by strides of 0

    @cached_property
    def _fetched(self) -> list[list[Fetch]]:
        return [self._fetched_by(k) for k in range(len(self.loops))]

    def _fetched_by(self, k: int) -> list[Fetch]:
        if sum(map(bool, self.loops)) > 1 and self._row_fits():
            return self._next_row() if k == self._fetching_loop() else []
        found = []
        least = FETCHED if self.kernel.is_reduction else FETCHED_ONCE
        for load in self._large_loads(self.loops[k]):
            distance = AHEAD // load.attrs["buffer"].dtype.itemsize
            if self.touched(load) >= least and self._goes_on(load, distance):
                found.append(Fetch(load, distance))
        return found

    def _next_row(self) -> list[Fetch]:
        """Every load of the row, at the place of the next row, or of the one `NEAR` bytes on."""
        loads: dict[tuple[str, Affine], Fetch] = {}
        if not self.outer:
            return []
        for load in chain.from_iterable(map(self._large_loads, self.loops)):
            step = load.attrs["index"].coefficient(self.outer[-1].name)
            if step != 0:
                loads.setdefault((load.attrs["buffer"].name, load.attrs["index"]), self._fetch_row(load, step))
        return list(loads.values())

    def _fetch_row(self, load: Value, step: Dim) -> Fetch:
        """`step`: elements from one row to the next."""
        row = math.prod(axis.hint for axis in self.inner) * load.attrs["buffer"].dtype.itemsize
        return Fetch(load, step * max(NEAR // max(row, 1), 1), "L1" if any(self.heavy) and row <= IN_L1 else "L2")

    def _fetching_loop(self) -> int:
        """The last loop that computes much, so that memory has time; else the last that there is."""
        last = max(k for k, loop in enumerate(self.loops) if loop)
        return max((k for k, heavy in enumerate(self.heavy) if heavy), default=last)

    def is_large(self, value: Value) -> bool:
        """Whether this is a load, of a place that is known before, that memory must serve."""
        return value.op == "load" and not value.args and self.touched(value) >= FETCHED

    def _large_loads(self, loop: Sequence[Value]) -> list[Value]:
        return [value for value in loop if self.is_large(value) and self.is_contiguous(value)]

    def _row_fits(self) -> bool:
        row = math.prod(axis.hint for axis in self.inner)
        buffers = {load.attrs["buffer"] for load in chain.from_iterable(map(self._large_loads, self.loops))}
        return sum(row * buffer.dtype.itemsize for buffer in buffers) <= ROW

    def _goes_on(self, load: Value, distance: int) -> bool:
        """Whether what lies `distance` further on will be read soon: in this row or, without a gap, in the next."""
        inner = self.inner[-1]
        if inner.hint >= 4 * distance or not self.outer and len(self.inner) == 1:
            return True
        around = self.inner[-2] if len(self.inner) > 1 else self.outer[-1]
        return load.attrs["index"].coefficient(around.name) == inner.size

    def is_contiguous(self, value: Value) -> bool:
        """Whether the innermost axis walks this load or store element by element."""
        return value.attrs["index"].is_contiguous(self.inner[-1].name) if self.inner else False

    def touched(self, value: Value) -> int:
        """Bytes of the buffer that the kernel touches through this instruction, or of the whole if that is known."""
        buffer, index = value.attrs["buffer"], value.attrs["index"]
        count = math.prod(axis.hint for axis in self.kernel.axes if index.coefficient(axis.name) != 0)
        known = buffer.numel if isinstance(buffer.numel, int) else 0
        return int(max(count, known)) * int(buffer.dtype.itemsize)
