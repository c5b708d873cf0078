"""Timing several candidates in turns."""

from __future__ import annotations

import torch

from minicompile.inspect.timing import interleaved


def test_candidates_run_with_all_threads() -> None:
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(3)
    try:
        interleaved({"one": lambda: seen.add(torch.get_num_threads())}, rounds=2, seconds_per_round=1e-4)
        assert seen == {torch.get_num_threads()} == {3}
    finally:
        torch.set_num_threads(before)
