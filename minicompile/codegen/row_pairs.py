"""Two rows at a time: of a kernel whose rows keep it waiting more than working.

In: a `Kernel`, the plan of its loops. Out: the kernel with half as many rows, each of which does the work of two:
what differs between the two stands twice in its body, what both read (a layer_norm's weights) once.

A short row of layer_norm waits for its sum to be added up across a vector, for a division, for the sum of squares, a
division and a root. The processor cannot look far enough ahead to work on the next row meanwhile; nor does it ask
memory for a place that the next row's index names. With two rows side by side it has twice the work for each wait, and
two places under way. Measured on one thread: layer_norm in cache takes 0.8 of the time for rows of 64, 0.73 to 0.85 for
256 to 1024, 1.05 for 2048; an embedding with layer_norm 0.77. Where rows are fetched ahead, two of them are fetched at
once, which is too much (rows of 256: 1.25)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.ops import POINTWISE
from .cpp_lanes import COSTLIEST
from .cpp_text import has_fast_form
from .kernel_ir import Affine, Axis, Kernel, Value

if TYPE_CHECKING:
    from .cpp_rows import RowPrinter

AT_ONCE = 2
"""Rows. With four, rows of 768 took as long as one by one: their accumulators no longer fit the registers."""

LONGEST = 1024
"""Elements of a row up to which its waits are worth the second row's registers."""

LOOPS = 3
"""Of a row that are worth it. With one wait, as in rms_norm, there is little to gain, and 512 elements took 1.3."""

Copies = Mapping[Value, tuple[Value, ...]]


def pair_axis(rows: RowPrinter) -> Axis | None:
    """The axis along which two rows at a time are faster: that whose neighbours share most loads, of these the
    innermost. None where they are not. All sizes must be known: no row may be left over, and the plan of how tensors
    travel counts their elements."""
    kernel = rows.kernel
    if not all(isinstance(axis.size, int) for axis in kernel.axes) or not _waits(rows):
        return None
    even = [axis for axis in kernel.of_kind("parallel") if axis.hint and axis.hint % AT_ONCE == 0]
    return max(reversed(even), key=lambda axis: _shared(kernel, axis), default=None)


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
    cost = sum(POINTWISE[value.op].cost for value in loop if value.op in POINTWISE)
    return reduced == 0 or reduced == 1 and AT_ONCE * cost <= COSTLIEST


def _shared(kernel: Kernel, axis: Axis) -> int:
    """How many loads two neighbours along this axis have in common."""
    copies = _all_copies(kernel, axis)
    return sum(value.op == "load" and len(copies[value]) == 1 for value in kernel.body)


def paired(kernel: Kernel, axis: Axis) -> Kernel:
    """See the module's docstring. The axis's size is known and even."""
    half = replace(axis, size=axis.size // AT_ONCE, hint=axis.hint // AT_ONCE)
    copies = _all_copies(kernel, axis)
    body = tuple(copy for value in kernel.body for copy in copies[value])
    return replace(kernel, axes=tuple(half if each is axis else each for each in kernel.axes), body=body)


def _all_copies(kernel: Kernel, axis: Axis) -> Copies:
    copies: dict[Value, tuple[Value, ...]] = {}
    for value in kernel.body:
        index = value.attrs.get("index")
        differs = index is not None and index.coefficient(axis.name) != 0
        count = AT_ONCE if differs or any(len(copies[arg]) > 1 for arg in value.args) else 1
        copies[value] = tuple(_copy(value, axis, copies, number) for number in range(count))
    return copies


def _copy(value: Value, axis: Axis, copies: Copies, number: int) -> Value:
    """The value as row `number` of the two computes it."""
    args = tuple(copies[arg][number % len(copies[arg])] for arg in value.args)
    index = value.attrs.get("index")
    attrs = value.attrs if index is None else {**value.attrs, "index": _moved(index, axis, number)}
    return replace(value, args=args, attrs=attrs)


def _moved(index: Affine, axis: Axis, number: int) -> Affine:
    """The index of row `number` of the two, by the number of the pair."""
    step = index.coefficient(axis.name)
    terms = tuple((name, AT_ONCE * by if name == axis.name else by) for name, by in index.terms)
    return Affine(terms, index.offset + number * step)
