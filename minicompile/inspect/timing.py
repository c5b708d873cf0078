"""Fair timing on noisy machines: several candidates, interleaved, medians with spread.

In: named callables without arguments. Out: `Timing` per name. Interleaving matters more than repetition: a machine
that slows down for a second slows every candidate, so ratios stay honest where absolute times do not.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median, and the first and third quartile over the rounds.

    `rounds`: of each round, in order; what was timed together has as many.
    """

    median: float
    low: float
    high: float
    rounds: tuple[float, ...] = ()

    def times_as_fast_as(self, other: Timing) -> float:
        """The median over the rounds of how many times as fast this was in each. What slows a machine down for some
        rounds does so for both, while of two medians it may move one; that of all rounds where some are not known."""
        if not self.rounds or len(self.rounds) != len(other.rounds):
            return other.median / self.median
        return statistics.median(theirs / own for own, theirs in zip(self.rounds, other.rounds, strict=True))

    def __str__(self) -> str:
        return f"{format_seconds(self.median)} ±{(self.high - self.low) / 2 / self.median:.0%}"


def format_seconds(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def format_bytes(count: int | None) -> str:
    """Three digits and a unit; `?` where the number is not known."""
    if count is None:
        return "?"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def format_count(number: float) -> str:
    """Three digits and K, M, G or T."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g}{unit}"
    return f"{number:g}"


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], *, rounds: int = 15, seconds_per_round: float = 0.02
) -> dict[str, Timing]:
    """Time each candidate `rounds` times, taking turns in an order drawn anew for each round.

    torch's Timer calls each twice before it times it, so that what the one before left in the caches, or gave back to
    the system from the heap, is not charged to its successor. It is told how many threads there are: else it sets one,
    for eager and for kernels that ask OpenMP, while Inductor's have their number compiled in.

    Args:
        candidates: name → function to call; each is called once first to warm up.
        rounds: how many turns each gets.
        seconds_per_round: how long one turn lasts, about; at least one call.
    """
    import torch
    from torch.utils.benchmark import Timer

    threads = torch.get_num_threads()
    timers = {name: Timer("f()", globals={"f": fn}, num_threads=threads) for name, fn in candidates.items()}
    number = {}
    for name, timer in timers.items():
        timer.timeit(1)
        number[name] = max(1, int(seconds_per_round / timer.timeit(1).mean))
    samples: dict[str, list[float]] = {name: [] for name in timers}
    order, draw = list(timers), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            samples[name].append(timers[name].timeit(number[name]).mean)
    return {name: _summary(values) for name, values in samples.items()}


def _summary(values: list[float]) -> Timing:
    if len(values) < 2:
        return Timing(values[0], values[0], values[0], tuple(values))
    low, _, high = statistics.quantiles(values, n=4)
    return Timing(statistics.median(values), low, high, tuple(values))
