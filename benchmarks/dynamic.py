"""What symbolic sizes cost: each row compiled for its own sizes, and for all.

In: rows. Out: a table: seconds per call with `dynamic=False` and `dynamic=True`, taking turns, and their ratio. Exit
status 1 if a row needed more than one entry, fell back, or is slower than `ALLOWED`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

import minicompile
from minicompile.inspect.timing import Timing, interleaved

from .measure import _bind, _forget
from .pinned import pinned
from .report import geometric_mean
from .suite import Row

if TYPE_CHECKING:
    from rich.console import Console

STATIC, SYMBOLIC = "static", "symbolic"
ALLOWED = 1.10


def measure_dynamic(row: Row, rounds: int) -> dict[str, Timing]:
    """Seconds per call of both. Raises what compiling raises; a graph that falls back to eager is an error."""
    torch.manual_seed(0)
    fn, args = row.make()
    with torch.no_grad(), warnings.catch_warnings(), minicompile.config.patch(strict=True):
        warnings.simplefilter("error", RuntimeWarning)
        calls = {
            STATIC: minicompile.compile(fn, dynamic=False),
            SYMBOLIC: minicompile.compile(fn, dynamic=True),
        }
        for call in calls.values():
            call(*args)
        with pinned():
            times = interleaved({name: _bind(call, args) for name, call in calls.items()}, rounds=rounds)
    _forget()
    return times


def report_dynamic(rows: Sequence[Row], console: Console, rounds: int) -> int:
    """Measure and print; the exit status."""
    from rich.table import Table

    shown = Table("row", STATIC, SYMBOLIC, "ratio", title="seconds per call, for these sizes and for all")
    ratios: dict[str, float] = {}
    failed = []
    for row in rows:
        try:
            times = measure_dynamic(row, rounds)
        except Exception as problem:  # named at the end; the other rows are still worth measuring
            failed.append(f"{row.name}: {type(problem).__name__}: {str(problem).splitlines()[0][:200]}")
            continue
        static, symbolic = times[STATIC], times[SYMBOLIC]
        # The faster quartile: what else the machine does makes calls slower and never faster.
        ratios[row.name] = symbolic.low / static.low
        shown.add_row(row.name, str(static), str(symbolic), f"{ratios[row.name]:.2f}")
        console.print(f"{row.name}: {ratios[row.name]:.2f}", markup=False, highlight=False)  # a run may be cut short
    console.print(shown)
    for line in failed:
        console.print(line, markup=False, highlight=False)
    slow = {name: ratio for name, ratio in ratios.items() if ratio > ALLOWED}
    mean = geometric_mean(list(ratios.values()))
    console.print(f"geometric mean {mean:.3f}; {len(slow)} of {len(ratios)} rows above {ALLOWED:.2f}")
    console.print(", ".join(slow), markup=False, highlight=False)
    return int(bool(slow or failed))
