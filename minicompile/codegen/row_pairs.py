"""Several rows at a time: of a kernel whose rows keep it waiting more than working.

In: a `Kernel`, the plan of its loops. Out: the kernel with half as many rows, or a quarter, each of which does the work
of several: what differs between them stands so many times in its body, what all read (a layer_norm's weights) once.

A short row of layer_norm waits for its sum to be added up across a vector, for a division, for the sum of squares, a
division and a root. The processor cannot look far enough ahead to work on the next row meanwhile; nor does it ask
memory for a place that the next row's index names. With two rows side by side it has twice the work for each wait, and
two places under way. Measured on one thread: layer_norm in cache takes 0.8 of the time for rows of 64, 0.73 to 0.85 for
256 to 1024, 1.05 for 2048; an embedding with layer_norm 0.77. Where rows are fetched ahead, two of them are fetched at
once, which is too much (rows of 256: 1.25).

A long row whose elements are only added up waits for memory. The processor's own prefetcher follows several rows
faster than one, and faster than prefetch instructions for one: on an AMD EPYC sums of rows of 16 KiB take 0.75 of the
time, of squares 0.7 to 0.8; rows of 4 KiB 0.9 to 1. Half types, whose conversion takes as long, gain nothing. On a Xeon
with AVX-512 it is prefetch instructions that are faster: one row takes 0.77 of the time of four, and 0.8 of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from ..runtime.cpu import vendor
from .cpp_lanes import COSTLIEST, cost_of
from .cpp_text import has_fast_form
from .kernel_ir import Affine, Axis, Kernel, Value

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

WAITING = 2
"""Rows that wait for themselves. With four, rows of 768 took as long as one by one: their accumulators no longer fit
the registers."""

STREAMS = 4
"""Rows that wait for memory, on a processor of AMD's. Two bring half as much."""

LONGEST = 1024
"""Elements of a row up to which its waits are worth the second row's registers."""

LOOPS = 3
"""Of a row that are worth it. With one wait, as in rms_norm, there is little to gain, and 512 elements took 1.3."""

PAGE = 4096
"""Bytes of a row from which there are several streams in its group: the prefetcher's lie in a page each."""

Copies = Mapping[Value, tuple[Value, ...]]


def several(rows: RowPrinter) -> tuple[Axis, int] | None:
    """The axis along which several rows at a time are faster, and how many: the axis whose neighbours share most loads,
    of these the innermost. None where they are not. All sizes must be known: no row may be left over, and the plan of
    how tensors travel counts their elements."""
    kernel = rows.kernel
    if not all(isinstance(axis.size, int) for axis in kernel.axes):
        return None
    count = WAITING if _waits(rows) else STREAMS if _streams(rows) else 1
    whole = [axis for axis in kernel.of_kind("parallel") if axis.hint and axis.hint % count == 0]
    if count == 1 or not whole:
        return None
    return max(reversed(whole), key=lambda axis: _shared(kernel, axis, count)), count


def _waits(rows: RowPrinter) -> bool:
    """Whether a row's loops wait for each other, and neither their work nor memory takes longer than that."""
    loops = rows.stages.loops
    if len(loops) < LOOPS or rows.kernel.hint("reduce") > LONGEST or any(map(has_fast_form, rows.kernel.body)):
        return False
    busy = any(rows.traffic.heavy) or any(rows.traffic.ahead(k) for k in range(len(loops)))
    return not busy and all(_is_light(loop) for loop in loops)


def _is_light(loop: list[Value]) -> bool:
    """Whether the loop has registers, and time, for a second row; one that only stores waits for nothing."""
    reduced = sum(value.op == "reduce" for value in loop)
    return reduced == 0 or reduced == 1 and WAITING * cost_of(loop) <= COSTLIEST


def _streams(rows: RowPrinter) -> bool:
    """Whether a row is floats as they lie in memory, added up, and the processor follows several."""
    if vendor() != "AuthenticAMD" or len(rows.stages.loops) != 1 or len(rows.inner) != 1 or rows.splits_row:
        return False
    loop = rows.stages.loops[0]
    loads = [value for value in loop if value.op == "load"]
    sums = [value for value in loop if value.op == "reduce" and value.attrs["kind"] == "sum"]
    plain = len(loads) == len(sums) == 1 and cost_of(loop) <= 1 and rows.has_lanes(rows.inner[0], 0, loop)
    return plain and _is_long(rows, loads[0])


def _is_long(rows: RowPrinter, load: Value) -> bool:
    """Whether memory must serve the load, page after page."""
    buffer = load.attrs["buffer"]
    long = buffer.dtype is torch.float32 and rows.inner[0].hint * buffer.dtype.itemsize >= PAGE
    return long and rows.traffic.is_large(load) and rows.traffic.is_contiguous(load)


def _shared(kernel: Kernel, axis: Axis, count: int) -> int:
    """How many loads neighbours along this axis have in common."""
    copies = _all_copies(kernel, axis, count)
    return sum(value.op == "load" and len(copies[value]) == 1 for value in kernel.body)


def joined(kernel: Kernel, axis: Axis, count: int) -> Kernel:
    """See the module's docstring. The axis's size is known and a multiple of `count`."""
    part = replace(axis, size=axis.size // count, hint=axis.hint // count)
    copies = _all_copies(kernel, axis, count)
    body = tuple(copy for value in kernel.body for copy in copies[value])
    return replace(kernel, axes=tuple(part if each is axis else each for each in kernel.axes), body=body)


def _all_copies(kernel: Kernel, axis: Axis, count: int) -> Copies:
    copies: dict[Value, tuple[Value, ...]] = {}
    for value in kernel.body:
        index = value.attrs.get("index")
        differs = index is not None and index.coefficient(axis.name) != 0
        several = differs or any(len(copies[arg]) > 1 for arg in value.args)
        copies[value] = tuple(_copy(value, axis, copies, k, count) for k in range(count if several else 1))
    return copies


def _copy(value: Value, axis: Axis, copies: Copies, number: int, count: int) -> Value:
    """The value as row `number` of `count` computes it."""
    args = tuple(copies[arg][number % len(copies[arg])] for arg in value.args)
    index = value.attrs.get("index")
    attrs = value.attrs if index is None else {**value.attrs, "index": _moved(index, axis, number, count)}
    return replace(value, args=args, attrs=attrs)


def _moved(index: Affine, axis: Axis, number: int, count: int) -> Affine:
    """The index of row `number` of `count`, by the number of the group."""
    step = index.coefficient(axis.name)
    terms = tuple((name, count * by if name == axis.name else by) for name, by in index.terms)
    return Affine(terms, index.offset + number * step)
