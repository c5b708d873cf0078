"""Timing several candidates in turns."""

from __future__ import annotations

import statistics

import torch

from minicompile.inspect.timing import Timing, interleaved


def test_candidates_run_with_all_threads() -> None:
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(3)
    try:
        interleaved({"one": lambda: seen.add(torch.get_num_threads())}, rounds=2, seconds_per_round=1e-4)
        assert seen == {torch.get_num_threads()} == {3}
    finally:
        torch.set_num_threads(before)


def timing(*rounds: float) -> Timing:
    median = statistics.median(rounds)
    return Timing(median, median, median, rounds)


def test_ratios_are_of_rounds() -> None:
    ours, theirs = timing(1.0, 1.0, 4.0, 4.0, 4.0), timing(2.0, 2.0, 2.0, 8.0, 8.0)  # the machine slows down meanwhile
    assert ours.times_as_fast_as(theirs) == 2.0 and theirs.times_as_fast_as(ours) == 0.5
    assert ours.times_as_fast_as(timing(2.0, 2.0)) == 0.5, "not timed together: of the medians"
    times = interleaved({"one": lambda: None, "two": lambda: None}, rounds=3, seconds_per_round=1e-5)
    assert [len(each.rounds) for each in times.values()] == [3, 3]
