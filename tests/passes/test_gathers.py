"""Gathering the operands instead of the result: when it is done, and that results stay eager's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile

from ..support import assert_as_accurate


def compiled(fn: Callable[..., Any], *args: Tensor) -> Any:
    """The compiled graph of a function, whose results were compared with eager's."""
    call = minicompile.compile(fn, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(call(*args), fn(*args))
    return call.entries[0].graphs[0].compiled


def writes_whole_rows(graph: Any, numel: int) -> bool:
    """Whether some kernel stores a tensor of that many elements."""
    return f"({numel // 8}, 8" in graph.wrapper_source or f"(8, {numel // 8})" in graph.wrapper_source


def ops_before_gather(graph: Any) -> list[str]:
    ops = [node.op for node in graph.ir.nodes]
    return ops[: ops.index("gather")]


def test_cross_entropy_does_not_store_the_log_softmax() -> None:
    target = torch.tensor([0, 3, 999, 5, -100, 7, 500, 2])
    graph = compiled(lambda x, t: F.cross_entropy(x, t), torch.randn(8, 1000), target)
    assert not writes_whole_rows(graph, 8000)


def test_all_targets_ignored_is_nan_as_in_eager() -> None:
    call = minicompile.compile(lambda x, t: F.cross_entropy(x, t))
    x, target = torch.randn(4, 100), torch.full((4,), -100)
    assert call(x, target).isnan() and F.cross_entropy(x, target).isnan()


def test_a_target_out_of_range_is_refused() -> None:
    call = minicompile.compile(lambda x, t: F.cross_entropy(x, t))
    with pytest.raises(IndexError):
        call(torch.randn(8, 100), torch.full((8,), 100))


def test_gathered_from_a_computed_value_by_index_select() -> None:
    rows = torch.tensor([3, 0, 3])
    compiled(lambda x, b, i: (x * 2 + b).index_select(0, i), torch.randn(64, 5), torch.randn(5), rows)
    compiled(
        lambda x, b, i: (x * 2 + b[:, None]).gather(1, i), torch.randn(8, 64), torch.randn(8), torch.randint(64, (8, 2))
    )


def test_a_row_value_that_differs_along_the_gathered_dimension_is_gathered_itself() -> None:
    index = torch.tensor([[5], [63], [0], [1]])
    compiled(lambda x, c, i: (x + c).gather(1, i), torch.randn(4, 64), torch.randn(64), index)


def test_half_precision() -> None:
    index = torch.tensor([[5], [63], [0], [1]])
    compiled(lambda x, i: (x.float() * 3).gather(1, i), torch.randn(4, 64).bfloat16(), index)


def test_what_is_gathered_nearly_whole_is_computed_once() -> None:
    graph = compiled(lambda x, i: torch.exp(x).gather(1, i), torch.randn(8, 100), torch.randint(100, (8, 100)))
    assert ops_before_gather(graph) == ["exp"]


@pytest.mark.parametrize("function", [
    lambda x, i: (-x)[:, i],
    lambda x, i: (x <= x)[i],
    lambda x, i: (x * 2)[..., i % 2],
    lambda x, i: F.pad(-x, (1, 1)),
], ids=["neg", "compared", "last", "masked"])  # fmt: skip
def test_results_keep_eagers_strides(function: Callable[..., Any]) -> None:
    """Found by the fuzzer: of a permuted tensor eager's gathered result is permuted as well."""
    call = minicompile.compile(function, fullgraph=True)
    for permutation in itertools.permutations(range(3)):
        x, index = torch.randn(3, 4, 2).permute(permutation), torch.tensor([0, 1])
        torch.testing.assert_close(call(x, index), function(x, index), check_stride=True, rtol=0, atol=0)


def rotated(x: Tensor) -> Tensor:
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


def rotary(h: Tensor, w: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    q, k = ((h @ p).view(2, 8, 4, 16).transpose(1, 2) for p in (w, v))
    return q * cos + rotated(q) * sin, k * cos + rotated(k) * sin


def shared_heads(h: Tensor, w: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    k = (h @ w).view(2, 8, 4, 1, 16).expand(2, 8, 4, 3, 16)
    return rotated(k) * sin[:, None, None]


def by_pairs(h: Tensor, w: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    q = (h @ w).view(2, 8, 4, 16)
    return torch.stack((-q[..., 1::2], q[..., ::2]), -1).flatten(-2) * sin.view(1, 8, 1, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [rotary, shared_heads, by_pairs])
def test_the_negated_half_of_a_rotary_embedding_is_never_stored(function: Any, dtype: torch.dtype) -> None:
    """Also where the heads are a view of a projection, which is in memory."""
    given = [torch.randn(shape, dtype=dtype) for shape in ((2, 8, 64), (64, 64), (64, 64), (8, 16), (8, 16))]
    call = minicompile.compile(function, fullgraph=True)
    with torch.no_grad():
        actual, eager = call(*given), function(*given)
        if dtype is torch.float32:
            torch.testing.assert_close(actual, eager, atol=1e-5, rtol=1e-5)
        else:  # what eager rounds in between may cancel out, so the two are held to the exact result
            exact = function(*(tensor.double() for tensor in given))
            for results in zip(*map(_as_list, (actual, eager, exact)), strict=True):
                assert_as_accurate(*results)
    assert len(call.entries[0].graphs[0].compiled.kernels) == 1


def _as_list(results: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def test_a_mask_of_indices_is_never_stored_however_many_read_it() -> None:
    def layers(h: Tensor, w: Tensor) -> Tensor:
        for _ in range(8):
            q = (h @ w).view(2, 8, 4, 16)
            h = (q + rotated(q)).reshape(2, 8, 64)
        return h

    call = minicompile.compile(layers, fullgraph=True)
    h, w = torch.randn(2, 8, 64), torch.randn(64, 64) / 12
    with torch.no_grad():
        torch.testing.assert_close(call(h, w), layers(h, w), rtol=1e-4, atol=1e-4)
    assert len(call.entries[0].graphs[0].compiled.kernels) == 8
