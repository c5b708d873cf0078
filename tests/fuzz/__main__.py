"""`python -m tests.fuzz --programs 50000 --workers 16`: random programs, by numbered seeds, in several processes.

Eager, the reference interpreter and the C++ kernels must agree. Prints each failure with its seed, and at the end how
many programs agreed. Exit status 1 if any did not. One failure again: `python -m tests.fuzz --seed 1234 --programs 1`.
Needs torch and g++, nothing else.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from .check import run_batch

BATCH = 100
"""Programs in one translation unit: g++ starts once for them."""


def batches(args: argparse.Namespace, stop: float) -> Iterator[tuple[int, int]]:
    """(first seed, count) until the programs, or else the seconds, are used up."""
    done = 0
    while (not args.programs or done < args.programs) and time.monotonic() < stop:
        count = min(BATCH, args.programs - done) if args.programs else BATCH
        yield args.seed + done, count
        done += count


def results(args: argparse.Namespace, stop: float) -> Iterator[tuple[int, list[str]]]:
    """(count, failures) of each batch as it ends; two batches a worker are in flight."""
    if args.workers == 1:
        for first, count in batches(args, stop):
            yield count, run_batch(first, count, args.steps)
        return
    context = multiprocessing.get_context("spawn")
    todo = batches(args, stop)
    with ProcessPoolExecutor(args.workers, mp_context=context) as pool:
        flying: dict[Future[list[str]], int] = {}
        while True:
            while len(flying) < 2 * args.workers and (batch := next(todo, None)) is not None:
                flying[pool.submit(run_batch, *batch, args.steps)] = batch[1]
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                yield flying.pop(future), future.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=0, help="how many; without it, as many as --seconds allow")
    parser.add_argument("--seconds", type=float, default=0, help="start no more after this long (default 600, or ever)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=1, help="processes; 0: one a processor")
    parser.add_argument("--steps", type=int, default=10, help="operations a program")
    args = parser.parse_args()
    args.workers = args.workers or os.cpu_count() or 1
    begin = time.monotonic()
    stop = begin + (args.seconds or (float("inf") if args.programs else 600))
    done = bad = 0
    for count, failures in results(args, stop):
        done, bad = done + count, bad + len(failures)
        for failure in failures:
            print(failure, flush=True)
        if done % (10 * BATCH) == 0:
            print(f"{done} programs, {bad} mismatches, {time.monotonic() - begin:.0f} s", flush=True)
    seeds = f"seeds {args.seed} to {args.seed + done - 1}"
    print(f"{done} programs, {bad} mismatches ({seeds}, {args.workers} workers, {time.monotonic() - begin:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
