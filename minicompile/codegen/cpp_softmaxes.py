"""Softmaxes in C++: sums of exponentials in registers, and a long row's maximum in the same pass ("online").

In: a row kernel's loops. Out: which of them are such sums, and their text: calls of cpp_prelude_softmaxes.h.

* A loop that adds up exp(x - top) has its exponentials in registers, and stores them where they are kept for later. By
  block functions (cpp_blocks.py) they would go through an array three times: softmax takes 0.8 of that time.
* What a softmax is of is computed once, into the row buffer of its exponentials, where it is not a tensor as it lies.
* Where nobody else reads the exponentials, a row is walked once: the greatest of a block, the sum so far rescaled if
  that is greater than all before, and the block, which lies in L1 now, added to it. With two loops, memory waits while
  the first looks for the maximum in cache, and a row longer than the caches is read twice (cross_entropy: 0.56).
* Lines are asked for two by two between exponentials: asked for sixteen at a time, they stop the processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .cpp_reduce import Accumulator
from .cpp_text import element_text
from .kernel_ir import Axis, Value, sinks
from .softmaxes import is_finite_maximum, maximum_below, online_sum

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

BLOCK = 2048
"""Elements of a block: 8 KiB of L1, and long enough that vectors are seldom joined. 1024 take 1.1 times as long."""

STEP = 32
"""Elements for which the header's loop asks memory at a time. With 64 it takes 1.1 times as long."""

IN_L1 = 8192
"""Elements of a row up to which what is computed for the maximum is left for the exponentials. Rows of 32768 take 1.15
of the time so, rows of 1024 0.9, masked ones of 512 0.6."""

SHORTEST = 512
"""Elements that a row must have for one pass. It takes of two passes' time, in cache, 0.8 for 512 and 0.7 from 1024 on;
from memory 0.7 to 0.9."""


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


@dataclass(frozen=True)
class ExpSum:
    """A loop's sum of `exponential`, which is of `element`, or of its difference to the row's `top`."""

    total: Value
    exponential: Value
    element: Value
    top: Value | None


@dataclass(frozen=True)
class Top:
    """A loop's maximum of `element`, below which the next loop adds up exponentials that are kept."""

    largest: Value
    element: Value
    kept: Value

    def lies(self, axis: Axis) -> bool:
        return _lies_as_it_is(self.element, axis)


def online_sums(rows: RowPrinter) -> dict[int, OnlineSum]:
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


def exp_sums(rows: RowPrinter) -> dict[int, ExpSum]:
    """Loops that add up exponentials and do nothing else that is not plain, where exp is a block function."""
    loops = enumerate(rows.stages.loops)
    found = {k: _exp_sum(rows, loop) for k, loop in loops if rows.has_block_calls(k, loop)}
    return {k: sum for k, sum in found.items() if sum is not None and _is_all(rows, k, sum)}


def _exp_sum(rows: RowPrinter, loop: Sequence[Value]) -> ExpSum | None:
    """By its form alone."""
    ends = sinks(loop)
    if len(ends) != 1 or ends[0].op != "reduce" or ends[0].attrs["kind"] != "sum":
        return None
    exponential = ends[0].args[0]
    if exponential.op != "exp" or exponential.dtype is not torch.float32:
        return None
    element = exponential.args[0]
    if element.op == "sub" and element.args[1] not in rows.stages.block:
        return ExpSum(ends[0], exponential, *element.args)
    return ExpSum(ends[0], exponential, element, None)


def _is_all(rows: RowPrinter, k: int, sum: ExpSum) -> bool:
    """Whether the loop computes nothing beside it that is kept, and the elements are plain to compute."""
    loop, kept = rows.stages.loops[k], rows.stages.kept
    others = [value for value, first in kept.items() if first == k and value is not sum.exponential]
    return not others and kept.get(sum.exponential, k) == k and rows.is_plain(k, _before(loop, sum))


def _before(loop: Sequence[Value], sum: ExpSum) -> list[Value]:
    """What the loop must compute to have the elements."""
    done = (sum.total, sum.exponential) if sum.top is None else (sum.total, sum.exponential, sum.exponential.args[0])
    return [value for value in loop if value not in done]


def tops(rows: RowPrinter) -> dict[int, Top]:
    """Loops that look for the maximum of plain elements for the next loop's sum of exponentials."""
    found = {}
    for k, sum in rows.exp_sums.items():
        largest = maximum_below(sum.exponential)
        before = rows.stages.loops[k - 1] if k else []
        ends = sinks(before)
        if ends != [largest] or largest is None or k - 1 in rows.online or not rows.is_plain(k - 1, before):
            continue
        top = Top(largest, sum.element, sum.exponential)
        if top.kept in rows.kept and (top.lies(rows.inner[-1]) or rows.kernel.hint("reduce") <= IN_L1):
            found[k - 1] = top
    return found


def print_top(rows: RowPrinter, axis: Axis, begin: str, end: str, k: int) -> None:
    """The maximum of [begin, end) into its declared `run_…`."""
    top = rows.tops[k]
    loop = [value for value in rows.stages.loops[k] if value is not top.largest]
    _open(rows, axis, begin)
    _print_elements(rows, axis, (begin, end), k, loop, top.element, rows.kept[top.kept])
    rows.out.add(f"run_{rows.names[top.largest]} = mc_block_top<true>(block, {end} - {begin});")
    rows.out.close()


def print_online(rows: RowPrinter, axis: Axis, begin: str, end: str, k: int) -> None:
    """The work on [begin, end) of the row: no more than a block."""
    sum = rows.online[k]
    loop = [value for value in rows.stages.loops[k] if value is not sum.largest]
    _open(rows, axis, begin)
    _print_elements(rows, axis, (begin, end), k, loop, sum.largest.args[0])
    _print_fetch(rows, axis, begin, k + 1)
    rows.out.add(f"mc_online_block({sum.total}, block, {end} - {begin}, fetch);")
    rows.out.close()


def print_exp_sum(rows: RowPrinter, axis: Axis, begin: str, end: str, k: int) -> None:
    """The same of one sum, into its declared `run_…`."""
    sum, name = rows.exp_sums[k], rows.names
    kept, top = rows.kept.get(sum.exponential), "0.0f" if sum.top is None else name[sum.top]
    _open(rows, axis, begin)
    if k - 1 in rows.tops and not rows.tops[k - 1].lies(axis):
        rows.out.add(f"const float *block = &{kept}[{rows.position()}];")
    else:
        _print_elements(rows, axis, (begin, end), k, _before(rows.stages.loops[k], sum), sum.element)
    _print_fetch(rows, axis, begin, k)
    target = "nullptr" if kept is None else f"&{kept}[{rows.position()}]"
    rows.out.add(f"run_{name[sum.total]} += mc_exp_sum<{str(kept is not None).lower()}>"
                 f"(block, {top}, {target}, {end} - {begin}, fetch);")
    rows.out.close()


def _open(rows: RowPrinter, axis: Axis, begin: str) -> None:
    """A scope in which the axis's index is that of the part's first element, where no loop says otherwise."""
    rows.out.open("")
    rows.out.add(f"const int64_t {axis.name} = {begin};")


def _print_elements(
    rows: RowPrinter,
    axis: Axis,
    part: tuple[str, str],
    k: int,
    loop: Sequence[Value],
    element: Value,
    kept: str | None = None,
) -> None:
    """Declare `block`: where the elements of a part of the row lie, or where they are computed to: an array, or their
    place in the row buffer `kept`."""
    (begin, end), out = part, rows.out
    if list(loop) == [element] and _lies_as_it_is(element, axis):
        out.add(f"const float *block = &{element_text(element)};")
        return
    place = None if kept is None else f"float *block = &{kept}[{rows.position()}];"
    out.add(place or f"alignas(64) float block[{BLOCK}];", "#pragma omp simd")
    out.open(f"for (int64_t {axis.name} = {begin}; {axis.name} < {end}; ++{axis.name})")
    out.add(*(rows.statement(value, k) for value in loop))
    out.add(f"block[{axis.name} - ({begin})] = {rows.names[element]};")
    out.close()


def _lies_as_it_is(load: Value, axis: Axis) -> bool:
    is_plain = load.op == "load" and not load.args and load.attrs["buffer"].dtype is torch.float32
    return is_plain and load.attrs["index"].is_contiguous(axis.name)


def _print_fetch(rows: RowPrinter, axis: Axis, begin: str, k: int) -> None:
    """Declare `fetch`: what asks memory for the next `STEP` elements."""
    with rows.out.closure("fetch", "const int64_t from"):
        rows.fetch_ahead(axis, f"{begin} + from", f"{begin} + from + {STEP}", k)
