"""Kernels that do the same are built once, and run for each of their tensors."""

from __future__ import annotations

import torch
from torch.nn import functional as F

import minicompile
from minicompile.codegen.cpp_build import build


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(width, width), torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.norm(self.linear(x)))


def test_layers_share_their_kernels() -> None:
    model = torch.nn.Sequential(*(Block(24) for _ in range(5)))
    compiled = minicompile.compile(model)
    x = torch.randn(8, 24)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    graph = compiled.entries[0].graphs[0].compiled
    assert len(graph.kernels) == 5
    assert graph.native_source.count('extern "C"') == 1
    assert "// also " + ", ".join(kernel.name for kernel in graph.kernels[1:]) in graph.native_source


def test_other_sizes_strides_and_constants_are_no_twins() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = [t.softmax(1) for t in (x, y, z)]
        return *rows, (x @ x.T) * 2, (x @ x.T) * 3

    args = torch.randn(16, 16), torch.randn(16, 32), torch.randn(16, 16).T
    compiled = minicompile.compile(f)
    torch.testing.assert_close(compiled(*args), f(*args))
    graph = compiled.entries[0].graphs[0].compiled
    assert "// also" not in graph.native_source


def test_no_kernels_at_all() -> None:
    assert build([], {}) == ("", [], [])
