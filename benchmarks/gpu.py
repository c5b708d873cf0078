"""`python -m benchmarks.gpu`: rows on a GPU, beside eager, torch.compile, and a copy of as many bytes.

    python -m benchmarks.gpu [--only REGEX] [--models] [--no-inductor] [--rounds N] [--out FILE]

A kernel row's time is the GPU's own, between two events, of the second of two calls, with the L2 cache flushed before
each; candidates take turns. A model's turn starts on an idle GPU and is four calls back to back, divided by four.
*bytes* is what must be read and written at least; *of copy* is the time of a copy (for reductions: of a read) of as
many bytes in the same run, over ours. Host time is what the calling thread spends on a call; the driver's own time for
a launch is measured beside it. A first call is made with empty caches.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .rows import add_only, chosen

if TYPE_CHECKING:
    from rich.table import Table

    from .gpu_suite import GpuRow

EAGER, INDUCTOR, OURS = "eager", "torch.compile", "minicompile"
GRAPHED = {INDUCTOR: "torch.compile, graphs", OURS: "minicompile, graphs"}


@dataclass
class GpuResult:
    """One row measured. Times in seconds, by candidate."""

    name: str
    kind: str
    moved: int
    bound: float | None = None
    times: dict[str, float] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    problems: list[str] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 if a row failed."""
    args = _parser().parse_args(argv)
    with tempfile.TemporaryDirectory() as caches:
        os.environ["MINICOMPILE_CACHE_DIR"] = f"{caches}/minicompile"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{caches}/inductor"
        os.environ["TRITON_CACHE_DIR"] = f"{caches}/triton"
        return _run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="minicompile on a GPU")
    add_only(parser)
    parser.add_argument("--models", action="store_true", help="whole models too (needs transformers)")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=20, help="how often each candidate takes its turn")
    parser.add_argument("--out", type=Path, default=Path("bench-output/gpu.json"), help="where the figures go")
    return parser


def _run(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from . import gpu_measure
    from .gpu_suite import MODELS, SUITE
    from .launch_bound import launch_seconds

    if not torch.cuda.is_available():
        print("no GPU: nothing measured")
        return 0
    rows = chosen([*SUITE, *(MODELS if args.models else [])], args.only)
    gpu_measure.warm_up(not args.no_inductor)
    results = []
    for row in rows:
        results.append(_guarded(row, lambda row=row: gpu_measure.measure(row, not args.no_inductor, args.rounds)))
        print(_line(results[-1]), flush=True)
    launch = launch_seconds()
    Console(width=None if sys.stdout.isatty() else 190).print(table(results, torch.cuda.get_device_name()))
    print(f"the driver alone takes {1e6 * launch:.2f} µs of the host for a launch")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {**gpu_measure.machine(), "launch": launch}
    args.out.write_text(json.dumps({"machine": machine, "rows": [vars(r) for r in results]}, indent=1))
    return int(any(result.problems for result in results))


def _guarded(row: GpuRow, run: Callable[[], GpuResult]) -> GpuResult:
    """A row that fails is named; the others are still worth measuring."""
    try:
        return run()
    except Exception as problem:  # whatever a compiler raises
        return GpuResult(row.name, row.kind, 0, problems=[f"{type(problem).__name__}: {str(problem)[:300]}"])


def _line(result: GpuResult) -> str:
    times = ", ".join(f"{name} {1e6 * t:.1f}" for name, t in result.times.items())
    host = ", ".join(f"{name} {1e6 * t:.1f}" for name, t in result.host.items())
    bound = "" if result.bound is None else f" bound {1e6 * result.bound:.1f}"
    problems = "".join(f"\n    {problem}" for problem in result.problems)
    return f"{result.name}: µs {times}{bound}; host {host}; errors {result.errors}{problems}"


def table(results: Sequence[GpuResult], title: str) -> Table:
    """One line a row."""
    from rich.table import Table

    shown = Table(title=title, title_justify="left")
    for head in ("row", EAGER, INDUCTOR, OURS, "GB/s", "of copy", "× eager", "× torch.compile", "host µs (e/t/m)",
                 "graphs µs (t/m)", "first s (t/m)", "error / eager's", "kernels"):  # fmt: skip
        shown.add_column(head, justify="left" if head == "row" else "right")
    for result in results:
        shown.add_row(*_cells(result))
    return shown


def _cells(r: GpuResult) -> list[str]:
    times = [f"{1e6 * r.times[name]:.1f}" if name in r.times else "" for name in (EAGER, INDUCTOR, OURS)]
    ours = r.times.get(OURS)
    if ours is None:
        return [r.name, *times, "failed: " + "; ".join(r.problems)[:60]]
    speed = f"{r.moved / ours / 1e9:.0f}" if r.moved else ""
    of_copy = f"{100 * r.bound / ours:.0f} %" if r.bound else ""
    ratios = [f"{r.times[name] / ours:.2f}" if name in r.times else "" for name in (EAGER, INDUCTOR)]
    host = "/".join(f"{1e6 * r.host[name]:.1f}" if name in r.host else "-" for name in (EAGER, INDUCTOR, OURS))
    graphs = "/".join(_graphed(r, name) for name in (INDUCTOR, OURS))
    first = "/".join(f"{r.first[name]:.2f}" if name in r.first else "-" for name in (INDUCTOR, OURS))
    error = f"{r.errors[OURS] / max(r.errors[EAGER], 1e-300):.2f}" if OURS in r.errors else ""
    return [r.name, *times, speed, of_copy, *ratios, host, graphs, first, error, str(r.kernels)]


def _graphed(r: GpuResult, name: str) -> str:
    """Time with CUDA graphs, and in brackets the host's."""
    key = GRAPHED[name]
    return f"{1e6 * r.times[key]:.1f} ({1e6 * r.host[key]:.1f})" if key in r.times else "-"


if __name__ == "__main__":
    sys.exit(main())
