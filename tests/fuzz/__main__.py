"""`python -m tests.fuzz --seconds 600`: random programs for as long as asked.

Prints each failure with its seed, and at the end how many programs agreed. Exit status 1 if any did not. One failure
again: `python -m tests.fuzz --seed 1234 --count 1`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import torch

from .check import check, program

BATCH = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--count", type=int, default=0, help="stop after this many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=10, help="operations a program")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    stop = time.monotonic() + args.seconds
    done = bad = 0
    while time.monotonic() < stop and (not args.count or done < args.count):
        size = min(BATCH, args.count - done) if args.count else BATCH
        seeds = range(args.seed + done, args.seed + done + size)
        programs = {id(one): (seed, one) for seed in seeds for one in [program(seed, args.steps)]}
        for one, why in check([one for _, one in programs.values()]):
            bad += 1
            print(f"--- seed {programs[id(one)][0]}: {why}\n{one.graph.graph}\n", flush=True)
        done += size
    print(f"{done} programs, {bad} mismatches")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
