"""First results of new processes with warm caches: what a user waits for who starts a program again.

In: rows. Out: a table: for each row and compiler the seconds from `import torch` done to the first result, in a new
process, after another process had filled the caches. Python's cache of bytecode is one of them: installed packages
have theirs, as torch does here, so ours is written even where the environment says that none is to be.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .measure import INDUCTOR, OURS
from .report import geometric_mean
from .suite import Row

if TYPE_CHECKING:
    from rich.console import Console

_SCRIPT = """
import sys, time, torch
from torch import nn
from benchmarks.suite import SUITE
torch.manual_seed(0)
fn, args = SUITE[sys.argv[1]].make()
torch.set_grad_enabled(False)
start = time.perf_counter()
if sys.argv[2] == "minicompile":
    import minicompile
    call = minicompile.compile(fn)
else:
    call = torch.compile(fn)
call(*args)
print("first", time.perf_counter() - start)
"""


def first_result(row: Row, compiler: str, runs: int = 3) -> float:
    """Seconds, the least of `runs` new processes after one that fills the cache."""
    return min([_process(row, compiler) for _ in range(runs + 1)][1:])


def _process(row: Row, compiler: str) -> float:
    command = [sys.executable, "-c", _SCRIPT, row.name, compiler]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip().splitlines()[-1])
    return float(run.stdout.split("first")[-1])


def report_warm(rows: Sequence[Row], console: Console) -> int:
    """Measure and print; the exit status is 0."""
    from rich.table import Table

    shown = Table("row", INDUCTOR, OURS, "ratio", title="first result of a new process, warm cache, seconds")
    ratios: list[Any] = []
    for row in rows:
        theirs, ours = first_result(row, INDUCTOR), first_result(row, OURS)
        ratios.append(ours / theirs)
        shown.add_row(row.name, f"{theirs:.2f}", f"{ours:.2f}", f"{ours / theirs:.2f}")
        # A row takes half a minute, and a run may be cut short.
        console.print(f"{row.name}: {theirs:.2f} s, {ours:.2f} s", markup=False, highlight=False)
    console.print(shown)
    console.print(f"geometric mean {geometric_mean(ratios):.2f}")
    return 0
