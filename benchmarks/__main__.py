"""`python -m benchmarks`: measure the suite, print the table, write JSON and SVG.

In: the options that `--help` lists. Out: `bench.json`, `bench.svg` and the exit status, 1 if a row failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .rows import add_only, chosen

if TYPE_CHECKING:
    from .measure import Result


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 if a row could not be compiled."""
    args = _parser().parse_args(argv)
    if args.threads:  # before torch is imported: Inductor's code asks OpenMP, not torch, in some versions
        os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    with tempfile.TemporaryDirectory() as caches:
        # Empty caches for both: the first calls are measured too.
        os.environ["MINICOMPILE_CACHE_DIR"] = f"{caches}/minicompile"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{caches}/inductor"
        return _run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="minicompile beside eager and torch.compile"
    )
    add_only(parser)
    parser.add_argument("--quick", action="store_true", help="a few rows, few rounds")
    parser.add_argument("--threads", type=int, help="torch's threads (default: as torch chooses)")
    parser.add_argument("--rounds", type=int, help="turns of each candidate; twice as many in all but models")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--warm", action="store_true", help="first results of new processes with warm caches, instead")
    parser.add_argument("--dynamic", action="store_true", help="kernels for all sizes beside those for one, instead")
    parser.add_argument("--out", type=Path, default=Path("bench-output"), help="where bench.json and bench.svg go")
    return parser


def _run(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from .measure import measure
    from .report import table, verdict, write_json
    from .suite import QUICK, SUITE

    if args.threads:
        torch.set_num_threads(args.threads)
    console = Console(width=None if sys.stdout.isatty() else 200)
    rows = chosen([SUITE[name] for name in QUICK] if args.quick else SUITE.values(), args.only)
    if args.warm:
        from .warm import report_warm

        return report_warm(rows, console)
    rounds = args.rounds or (7 if args.quick else 15)
    if args.dynamic:
        from .dynamic import report_dynamic

        return report_dynamic(rows, console, rounds)
    _warm_up(not args.no_inductor)
    results = []
    for row in rows:
        console.print(f"[dim]{row.name}[/]", end="\r")
        results.append(measure(row, inductor=not args.no_inductor, rounds=rounds))
    console.print(table(results))
    for line in verdict(results):
        console.print(line, markup=False, highlight=False)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(results, args.out / "bench.json")
    _plot(results, args.out / "bench.svg")
    return int(any(result.problems for result in results))


def _plot(results: list[Result], path: Path) -> None:
    """Draw the picture, or say what is missing for it."""
    from .plot import write_svg

    try:
        write_svg(results, path)
    except ImportError as problem:
        print(f"{path} is not drawn: {problem}; pip install 'minicompile[bench]'")


def _warm_up(inductor: bool) -> None:
    """The first compilation of a process pays for imports; `--warm` measures those."""
    import torch

    import minicompile

    with torch.no_grad():
        minicompile.compile(lambda x: x * 2 + 1)(torch.ones(5))
        if inductor:
            torch.compile(lambda x: x * 2 + 1)(torch.ones(5))


if __name__ == "__main__":
    sys.exit(main())
