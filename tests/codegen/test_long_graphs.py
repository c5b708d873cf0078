"""Graphs of many nodes compile in a time that grows with their number, not with its square."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import minicompile
from minicompile.codegen import fusion
from minicompile.ir import verifier


def unrolled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x.new_zeros(x.shape[1:])
    c = h
    for row in x:
        i, f = torch.sigmoid((row + h) @ w).chunk(2, -1)
        c = f * c + i * row.tanh()
        h = c.tanh() * i
    return (h + c).sum()


def _counted(monkeypatch: pytest.MonkeyPatch, steps: int) -> dict[str, int]:
    """How often units of a kernel plan were told of a merge, and nodes were verified, for so many steps."""
    counts = {"told": 0, "verified": 0}
    living, verify_node = fusion._Fusion._living, verifier._verify_node

    def counting(self: Any, bits: int) -> Iterator[fusion.Unit]:
        for unit in living(self, bits):
            counts["told"] += 1
            yield unit

    def verifying(node: Any) -> None:
        counts["verified"] += 1
        verify_node(node)

    with monkeypatch.context() as patch, minicompile.config.patch(strict=True, entry_cache=False):
        patch.setattr(fusion._Fusion, "_living", counting)
        patch.setattr(verifier, "_verify_node", verifying)
        x, w = torch.randn(steps, 2, 4), torch.randn(4, 8, requires_grad=True)
        minicompile.compile(unrolled, fullgraph=True)(x, w).backward()
    return counts


def test_work_grows_with_the_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    some, twice = (_counted(monkeypatch, steps) for steps in (12, 24))
    assert twice["verified"] < 2.4 * some["verified"]
    assert twice["told"] < 4 * twice["verified"]  # not each unit of each merge
