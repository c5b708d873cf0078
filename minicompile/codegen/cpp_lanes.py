"""Reductions with an accumulator for each of several lanes, so that memory sets the pace of a long row's sum.

In: one run (at most `RUN` elements of a row) of a row kernel's loop, with its accumulators. Out: its text.

A loop `run += x[i]` makes the compiler keep one vector of partial sums: each addition waits for the last, and at the
run's end the vector is summed across, which the processor cannot overlap with much. Here the run is walked in steps
of `BYTES`, 64 floats, and lane l of an array takes every 64th element from number l on; gcc keeps the array in
registers. Measured on rows of 4096 floats: 1.5 times as fast in cache, 1.3 beyond it. It is more exact as well: a
lane takes 8 elements of a run, and lanes are summed in the total's type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..ir.ops import POINTWISE
from .cpp_reduce import Accumulator
from .kernel_ir import Axis, Value

if TYPE_CHECKING:
    from .cpp_rows import Lines

RUN = 512
"""Elements of a run: eight for each lane."""

SHORTEST = 128
"""Elements that a row must have. Sums of rows of 128 to 384 in cache take 0.5 to 0.8 of the time, of bfloat16 0.4 to
0.65, layer_norm 0.65 to 0.85; those of 64 or 96 1.4 times as long."""

WHOLE = 768
"""Elements up to which a row is one run: twelve for each lane, steps that gcc still writes out one after the other.
Measured in cache: row sums of 768 take 0.72 of the time that runs of 512 and 256 take, layer_norm of 600 0.62. With
more steps it is a loop, whose end the processor does not foresee (896: up to 1.25)."""

STEP = 64
"""Elements of a step at the most."""

BYTES = 256
"""Of an accumulator's lanes: four of the widest registers, so that four additions are under way at once."""

COSTLIEST = 8
"""Cost (op table's) of an element's work up to which waiting for additions, not the work, sets the pace."""


def cost_of(loop: Sequence[Value]) -> int:
    """Of an element's work, by the op table."""
    return sum(POINTWISE[value.op].cost for value in loop if value.op in POINTWISE)


def pay(axis: Axis, loop: Sequence[Value], rows: int) -> bool:
    """Whether a loop along this axis is long and light enough, and does nothing but reduce; `rows` of them at once."""
    reduced = [value for value in loop if value.op == "reduce"]
    light = cost_of(loop) <= COSTLIEST
    whole = axis.hint % STEP == 0 or axis.hint >= 3 * STEP  # beside two steps, the work on the rest is too much: 1.1
    return 0 < len(reduced) <= max(2, rows) and light and whole and axis.hint >= SHORTEST


def width(rows: int) -> int:
    """Bytes of an accumulator's lanes, where so many rows share the registers."""
    return BYTES if rows <= 2 else BYTES // rows


def run_length(axis: Axis, rows: int) -> int:
    """Elements of a run along this axis: where its size is not known, as many whole steps as what was seen has. Lanes
    that are fewer, for many rows, take as many elements each."""
    if axis.hint > WHOLE:
        return RUN * width(rows) // BYTES
    return axis.size if isinstance(axis.size, int) else -(-axis.hint // STEP) * STEP


def print_run(
    out: Lines,
    axis: Axis,
    begin: str,
    end: str,
    accumulators: Sequence[Accumulator],
    body: Callable[[], None],
    fetch: Callable[[str, str], None],
    width: int,
) -> None:
    """The loops of one run, from `begin` to `end`, into its declared `run_…`. `body` prints one element's work, `fetch`
    asks memory for what elements stand for: a step at a time, since for a run at once the processor stops. `width`: of
    an accumulator's lanes, in bytes."""
    lanes = width // min(acc.value.dtype.itemsize for acc in accumulators)
    for acc in accumulators:
        out.add(*acc.declare_lanes(lanes))
    whole = f"{begin} + ({end} - {begin}) / {lanes} * {lanes}"
    out.open(f"for (int64_t first = {begin}; first < {whole}; first += {lanes})")
    fetch("first", f"first + {lanes}")
    out.add("#pragma omp simd")
    out.open(f"for (int64_t lane = 0; lane < {lanes}; ++lane)")
    out.add(f"const int64_t {axis.name} = first + lane;", *(acc.refer_to_lane() for acc in accumulators))
    body()
    out.close()
    out.close()
    clauses = " ".join(acc.clause() for acc in accumulators)
    out.add(f"#pragma omp simd {clauses}",
            f"for (int64_t lane = 0; lane < {lanes}; ++lane) {{ "
            + " ".join(acc.take_lane() for acc in accumulators) + " }")
    if isinstance(axis.size, int) and axis.size % lanes == 0:
        return
    out.add(f"#pragma omp simd {clauses}")
    out.open(f"for (int64_t {axis.name} = {whole}; {axis.name} < {end}; ++{axis.name})")
    body()
    out.close()
