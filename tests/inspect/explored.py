"""What the explorer's tests look at: three kernels, a graph break, a journal, an inlined call, a guard that fails."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.softmax(x * scale, -1)


class Scorer(torch.nn.Module):
    seen = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        z = scaled(F.relu(self.lin(x)), scale)
        self.last = scale
        if z.sum() > 0:  # the break
            z = z + 1
        return torch.exp(z @ z.T) * 2


BREAK_LINE = Scorer.forward.__code__.co_firstlineno + 3


def calls() -> list[tuple[Any, ...]]:
    torch.manual_seed(0)
    return [(torch.randn(8, 16), 2.0), (torch.randn(8, 16), 2.0), (torch.randn(8, 16).double(), 2.0)]
