"""Large results in huge pages: a request that never changes a result."""

from __future__ import annotations

import torch

import minicompile
from minicompile.runtime.pages import LARGE, advise, empty_large


def test_memory_is_as_asked_for() -> None:
    got = empty_large((3, 5), (1, 3), torch.float64)
    assert got.shape == (3, 5) and got.stride() == (1, 3) and got.dtype == torch.float64


def test_advice_changes_no_element_and_takes_any_size() -> None:
    for numel in (0, 1, 1023, 1 << 20):
        x = torch.arange(numel, dtype=torch.float32)
        assert torch.equal(advise(x), torch.arange(numel, dtype=torch.float32))


def test_large_results_come_from_it_and_small_ones_do_not() -> None:
    compiled = minicompile.compile(lambda x: x + 1, dynamic=False)
    for numel, is_large in ((LARGE // 4, True), (LARGE // 4 - 1, False)):
        x = torch.zeros(numel)
        assert torch.equal(compiled(x), torch.ones(numel))
        assert ("empty_large" in compiled.entries[-1].graphs[0].compiled.wrapper_source) is is_large


def test_symbolic_results_are_in_huge_pages_where_they_were_large_while_tracing():
    compiled = minicompile.compile(lambda x: x + 1, dynamic=True)
    for rows in (LARGE // 4096 + 1, 3):  # of 4 KiB
        x = torch.zeros(rows, 1024)
        assert torch.equal(compiled(x), x + 1)
    (entry,) = compiled.entries
    assert "empty_large" in entry.graphs[0].compiled.wrapper_source
