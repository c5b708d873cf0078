"""Softmaxes' sums in C++: a long row's maximum and the sum of exponentials below it in one pass ("online").

In: a row kernel's loops. Out: which two of them are one, and the text of that one.

The row is walked in blocks of `BLOCK` elements: the greatest of a block, the sum so far rescaled if that is greater
than all before, and the block, which lies in L1 now, added to it (cpp_prelude_online.h). With two loops, memory waits
while the first looks for the maximum in cache, and a row longer than the caches is read twice. Lines are asked for one
by one between the exponentials: asked for sixteen at a time, they stop the processor (1.3 times the time)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .cpp_reduce import Accumulator
from .kernel_ir import Axis, Value
from .softmaxes import is_finite_maximum, maximum_below, online_sum

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

BLOCK = 2048
"""Elements of a block: 8 KiB of L1, and long enough that vectors are seldom joined. 1024 take 1.1 times as long."""

STEP = 32
"""Elements for which the header's loop asks memory at a time. With 64 it takes 1.1 times as long."""

SHORTEST = 512
"""Elements that a row must have. One pass takes of two passes' time, in cache, 0.8 for 512 and 0.7 from 1024 on; from
memory 0.7 to 0.9."""


@dataclass(frozen=True)
class OnlineSum(Accumulator):
    """Both reductions as one accumulator. `largest` is the maximum, `top` its SSA name."""

    largest: Value
    top: str

    @property
    def total(self) -> str:
        return f"online_{self.name}"

    @property
    def total_type(self) -> str:
        return "mc_Online"

    def declare_total(self) -> str:
        return f"mc_Online {self.total};"

    def join(self, part: str) -> str:
        return f"mc_online_join({self.total}, {part});"

    def finish(self) -> str:
        """Infinite maxima count as 0 in `torch.logsumexp`."""
        finite = is_finite_maximum(self.value.args[0].args[0].args[1])
        return (f"const float {self.top} = mc_online_top({self.total}); "
                f"const double total_{self.name} = mc_online_sum({self.total}, {str(finite).lower()}); "
                f"const float {self.name} = (float)total_{self.name};")


def find(rows: RowPrinter) -> dict[int, OnlineSum]:
    """Loops that find a maximum and can do the next loop's work, with what both compute. The exponentials must not be
    kept for later, and what they are of must be plain to compute: it is not done block by block."""
    found: dict[int, OnlineSum] = {}
    loops, kept = rows.stages.loops, rows.stages.kept.values()
    if not rows.inner or rows.inner[-1].hint < SHORTEST:
        return found
    for k, loop in enumerate(loops):
        total = online_sum(loops, k)
        largest = None if total is None else maximum_below(total.args[0])
        if total is not None and largest is not None and k + 1 not in kept and rows.is_plain(k, loop):
            found[k] = OnlineSum(total, rows.names[total], largest, rows.names[largest])
    return found


def print_block(rows: RowPrinter, axis: Axis, begin: str, end: str, k: int, accumulator: OnlineSum) -> None:
    """The work on [begin, end) of the row: no more than a block."""
    loop = [value for value in rows.stages.loops[k] if value is not accumulator.largest]
    element, out = accumulator.largest.args[0], rows.out
    out.open("")
    if loop == [element] and _lies_as_it_is(element, axis):
        index = element.attrs["index"].text("cpp")
        out.add(f"const int64_t {axis.name} = {begin};",
                f"const float *block = &{element.attrs['buffer'].name}[{index}];")
    else:
        out.add(f"alignas(64) float block[{BLOCK}];")
        _print_elements(rows, axis, (begin, end), k, loop, rows.names[element])
    out.open("const auto fetch = [&](const int64_t from) __attribute__((always_inline))")
    rows.fetch_ahead(axis, f"{begin} + from", f"{begin} + from + {STEP}", k + 1)
    out.depth -= 1
    out.add("};", f"mc_online_block({accumulator.total}, block, {end} - {begin}, fetch);")
    out.close()


def _print_elements(
    rows: RowPrinter, axis: Axis, part: tuple[str, str], k: int, loop: Sequence[Value], element: str
) -> None:
    begin, end = part
    rows.out.add("#pragma omp simd")
    rows.out.open(f"for (int64_t {axis.name} = {begin}; {axis.name} < {end}; ++{axis.name})")
    rows.out.add(*(rows.statement(value, k) for value in loop), f"block[{axis.name} - ({begin})] = {element};")
    rows.out.close()


def _lies_as_it_is(load: Value, axis: Axis) -> bool:
    is_plain = load.op == "load" and not load.args and load.attrs["buffer"].dtype is torch.float32
    return is_plain and bool(load.attrs["index"].coefficient(axis.name) == 1)
