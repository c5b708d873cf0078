"""`graph.print()` of a transformer block: it fits a screen, shows the user's lines, runs, and gives the same values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import minicompile
from minicompile.ir.printer import namespace


class Block(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm_1(x)).chunk(3, -1)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


SCREEN = 50


def test_a_transformer_block() -> None:
    block, x = Block().eval(), torch.randn(2, 8, 32)
    with torch.no_grad():
        explained = minicompile.explain(block)(x)
        wanted = block(x)
    (record,) = explained.graphs
    graph = record.compiled.ir
    text = str(graph)
    assert len(text.splitlines()) <= SCREEN
    for line in ("scores = (q @ k.transpose(-1, -2))", "return x + self.down(F.gelu(self.up(self.norm_2(x))))"):
        assert line in text
    scope = namespace(graph)
    exec(text, scope)
    values = {id(x): x} | {id(p): p for p in block.parameters()}
    names = dict(block.named_parameters()) | {"x": x}
    by_name = {f"self_{name.replace('.', '_')}" if name != "x" else name: value for name, value in names.items()}
    inputs = [by_name[node.attrs["name"]] for node in graph.inputs]
    assert len(values) == len(inputs)
    with torch.no_grad():
        (result,) = scope[graph.name](*inputs)
    torch.testing.assert_close(result, wanted)
