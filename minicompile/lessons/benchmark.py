"""Session 5: from which batch size on does compiling pay?

In: nothing. Out: a table of times by batch size, eager's and the compiled function's, and a question about it.
"""

from __future__ import annotations

from functools import partial

import torch

import minicompile

from ..inspect.timing import Timing, interleaved
from .session import begin, question

BATCHES = (1, 16, 256, 4096)


def entropy(x: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


@torch.no_grad()
def run(batches: tuple[int, ...] = BATCHES, rounds: int = 7) -> dict[int, dict[str, Timing]]:
    """Steady times of eager and compiled, taking turns, after a warm-up."""
    compiled = minicompile.compile(entropy, dynamic=True)
    results = {}
    for batch in batches:
        x = torch.randn(batch, 256)
        results[batch] = interleaved({"eager": partial(entropy, x), "compiled": partial(compiled, x)}, rounds=rounds)
    return results


def main() -> None:
    begin(5, "benchmark run", "time eager and compiled over batch sizes, warmed up, by medians; is there a break-even?")
    print(f"{'batch':>8}{'eager':>18}{'compiled':>18}{'speed-up':>10}")
    for batch, times in run().items():
        ratio = times["compiled"].times_as_fast_as(times["eager"])
        print(f"{batch:>8}{times['eager']!s:>18}{times['compiled']!s:>18}{ratio:>9.2f}x")
    question(
        "why does the speed-up change with the batch size?",
        "a call costs some microseconds whatever its size: guards, allocation, launch. Eager pays that once for each "
        "operation, the compiled function once in all: that decides for small batches. In large ones it is bytes that "
        "count, and how long the arithmetic on each takes.",
    )


if __name__ == "__main__":
    main()
