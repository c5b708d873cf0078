"""Constant attention masks: what becomes of them, and that attention stays eager's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import minicompile
from minicompile import passes
from minicompile.config import config
from minicompile.ir.graph import Graph, Node

from ..ir.builders import Build, tensor_type

B, H, L, D = 2, 4, 16, 8
attend = F.scaled_dot_product_attention


def ages(like: Tensor) -> Tensor:
    return torch.arange(like.shape[-2]) + 0


def causal(x: Tensor) -> Tensor:
    return ages(x)[:, None] >= ages(x)


def packed(x: Tensor) -> Tensor:
    """As transformers builds it: causal, and within one of several packed sequences, of which there is one."""
    position = ages(x)[None].expand(B, -1)
    number = (torch.diff(position, prepend=position[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    return causal(x)[None, None] & (number[:, None, :, None] == number[:, None, None, :])


def below(value: float, x: Tensor) -> Tensor:
    return torch.zeros(L, L).masked_fill(~causal(x), value)


NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "everything is seen": lambda x: (ages(x) >= 0).expand(B, 1, L, L),
    "zeros": lambda x: torch.zeros(L, L),
    "one row for all": lambda x: (ages(x) * 0 == 0)[None, None, None].expand(B, 1, L, L),
}
CAUSAL: dict[str, Callable[[Tensor], Tensor]] = {
    "causal": causal,
    "tril": lambda x: torch.ones(L, L, dtype=torch.bool).tril(),
    "packed": packed,
    "of numbers": lambda x: below(-math.inf, x),
    "least numbers": lambda x: below(torch.finfo(torch.float32).min, x),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "a window": lambda x: causal(x) & (ages(x)[:, None] - ages(x) < 5),
    "one more": lambda x: ages(x)[:, None] + 1 >= ages(x),
    "the other half": lambda x: ages(x)[:, None] <= ages(x),
    "a slope": lambda x: (ages(x) - ages(x)[:, None]).float() * 0.5,
    "a little": lambda x: below(-100.0, x),
    "of an input": lambda x: x[:1, :1, :, :1] > -100,
    "of random numbers": lambda x: torch.rand(L, L) >= 0,
    "not for all": lambda x: causal(x) | (torch.arange(B) == 1)[:, None, None, None],
}


def attention(mask: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda q, k, v: attend(q * 1.5, k, v, attn_mask=mask(q), scale=0.3)


def qkv(dtype: torch.dtype = torch.float32, grad: bool = False) -> list[Tensor]:
    return [torch.randn(B, H, L, D, dtype=dtype, requires_grad=grad) for _ in range(3)]


def calls(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "extern" and "scaled_dot" in str(n.attrs["target"])]


def state(call: Node) -> tuple[bool, bool]:
    """Whether a call has a mask, and whether it is causal."""
    named = dict(zip([a.name for a in call.attrs["target"]._schema.arguments], call.args, strict=False))
    named = {**named, **call.attrs["kwargs"]}
    return "attn_mask" in call.attrs["keywords"], bool(named.get("is_causal"))


WANTED = [(mask, (False, False)) for mask in NOTHING.values()] + [(mask, (False, True)) for mask in CAUSAL.values()]
WANTED += [(mask, (True, False)) for mask in OTHERS.values()]


@pytest.mark.parametrize("index", range(len(WANTED)), ids=[*NOTHING, *CAUSAL, *OTHERS])
def test_attention_without_gradients(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mask, wanted = WANTED[index]
    function = attention(mask)
    monkeypatch.setattr(config, "entry_cache", False)  # all entries are of this very function
    compiled = minicompile.compile(function, fullgraph=True)
    for dtype in (torch.float32, torch.float64):
        args = qkv(dtype)
        if dtype is torch.float32 or mask(args[0]).dtype is torch.bool:
            torch.testing.assert_close(compiled(*args), function(*args))
    assert [state(c) for e in compiled.entries for g in e.graphs for c in calls(g.compiled.ir)][:1] == [wanted]


@pytest.mark.parametrize("index", range(len(WANTED)), ids=[*NOTHING, *CAUSAL, *OTHERS])
def test_attention_with_gradients(index: int) -> None:
    mask, wanted = WANTED[index]
    compiled = minicompile.compile(attention(mask), fullgraph=True)
    found = []
    args = qkv()
    for function in (compiled, attention(mask)):
        leaves = [arg.clone().requires_grad_() for arg in args]
        out = function(*leaves)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        found.append([out, *(leaf.grad for leaf in leaves)])
    for ours, eagers in zip(*found, strict=True):
        torch.testing.assert_close(ours, eagers)
    (graph,) = [g.compiled for e in compiled.entries for g in e.graphs]
    both = [state(call) for half in (graph.split.forward, graph.split.backward) for call in calls(half)]
    assert both[0] == wanted and {causal for _, causal in both} == {wanted[1]}


def test_more_keys_than_queries() -> None:
    """Which corner a causal mask begins in is each kernel's own affair."""
    function = lambda q, k, v: attend(q[:, :, :5], k, v, attn_mask=torch.ones(5, L, dtype=torch.bool).tril())  # noqa: E731
    compiled = minicompile.compile(function, fullgraph=True)
    args = qkv()
    torch.testing.assert_close(compiled(*args), function(*args))
    (call,) = calls(compiled.entries[0].graphs[0].compiled.ir)
    assert state(call) == (True, False)


EFFICIENT, CUDNN = (
    getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default for name in ("efficient", "cudnn")
)


@pytest.mark.parametrize("target,given", [
    (EFFICIENT, (False,)), (EFFICIENT, (True, 0.1)), (CUDNN, (False,)), (CUDNN, (False, 0.0, False)),
])  # fmt: skip
@pytest.mark.parametrize("is_causal", [False, True])
def test_operators_of_gpus(target: Any, given: tuple[Any, ...], is_causal: bool) -> None:
    """As text: these run nowhere here. ATen puts -65504 where a bool mask is false."""
    g = Build()
    q = g.input("q", B, H, L, D, dtype=torch.bfloat16)
    type = tensor_type(B, 1, L, L, dtype=torch.bool)
    row, column = g.iota(2, type), g.iota(3, type)
    seen = g.ge(row, column if is_causal else g.mul(row, -1))
    kind = tensor_type(B, 1, L, L, dtype=torch.bfloat16)
    bias = g.where(seen, g.full(0.0, kind), g.full(-65504.0, kind))
    types = (q.tensor, *(None for _ in target._schema.returns[1:]))
    attrs: Any = {"target": target, "kwargs": {"scale": 0.5}, "keywords": ()}
    call = g.builder.add("extern", (q, q, q, bias, *given), types, **attrs)
    graph = passes.run(g.graph(g.builder.add("getitem", (call, 0), q.tensor)))
    (new,) = calls(graph)
    assert new.args[3] is None and state(new)[1] is is_causal
    assert new.args[4 : 4 + len(given)][:2] == given[:2] and new.attrs["kwargs"]["scale"] == 0.5
    assert [node.op for node in graph.nodes] == ["extern", "getitem"]
