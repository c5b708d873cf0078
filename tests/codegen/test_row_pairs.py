"""Several rows at a time: right for the first and last row, for every parity of sizes, and used only where it pays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile
from minicompile.codegen import row_pairs
from minicompile.codegen.cpp_traffic import FETCHED

from ..support import assert_as_accurate

SIZES = [(2, 2), (2, 3), (3, 2), (3, 3), (1, 1), (1, 8), (32, 20)]
"""Of the two outer axes: which of them is even, and enough work for threads."""

WORDS = 50


def embed(ids: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(ids, table) + positions, table.shape[1:])


def take(ids: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    return F.layer_norm(table[ids] * positions, table.shape[1:])


def statistics(ids: Tensor, positions: Tensor, table: Tensor) -> tuple[Tensor, ...]:
    """Results of a row beside those of its elements."""
    rows = table[ids] + positions
    variance, mean = torch.var_mean(rows, -1, keepdim=True, correction=0)
    return (rows - mean) * (variance + 1e-5).rsqrt(), mean, variance


def plain(ids: Tensor, positions: Tensor, table: Tensor) -> Tensor:
    """Neighbours have nothing in common but the weights, which may be numbers of a row."""
    return F.layer_norm(positions * 2, positions.shape[-1:], table[0]) + positions[:, :1]


def operands(batch: int, words: int, length: int = 96) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(batch * words + length)
    ids = torch.randint(WORDS, (batch, words))
    ids.view(-1)[0], ids.view(-1)[-1] = WORDS - 1, 0
    return ids, torch.randn(words, length), torch.randn(WORDS, length)


def source(fn: Callable[..., object], *args: Tensor, dynamic: bool = False) -> str:
    compiled = minicompile.compile(fn, dynamic=dynamic)
    compiled(*args)
    return "\n".join(kernel.source for entry in compiled.entries for graph in entry.graphs
                     for kernel in graph.compiled.kernels)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("length", [77, 768])
@pytest.mark.parametrize("fn", [embed, take, statistics, plain])
def test_as_eager(fn: Callable[..., object], length: int, size: tuple[int, int]) -> None:
    args = operands(*size, length)
    torch.testing.assert_close(minicompile.compile(fn, dynamic=False)(*args), fn(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fn", [embed, take, statistics, plain])
def test_sizes_that_are_not_known(fn: Callable[..., object]) -> None:
    compiled = minicompile.compile(fn, dynamic=True)
    for size in SIZES:
        args = operands(*size)
        torch.testing.assert_close(compiled(*args), fn(*args), rtol=1e-4, atol=1e-5)


def test_indices_from_the_end_in_either_row() -> None:
    ids, positions, table = operands(4, 6)
    compiled = minicompile.compile(take, dynamic=False)
    for place in range(ids.numel()):
        negative = ids.clone()
        negative.view(-1)[place] -= WORDS
        torch.testing.assert_close(compiled(negative, positions, table), take(ids, positions, table))


@pytest.mark.parametrize("wrong", [WORDS, -WORDS - 1])
def test_a_wrong_index_in_either_row(wrong: int) -> None:
    ids, positions, table = operands(4, 6)
    compiled = minicompile.compile(take, dynamic=False)
    compiled(ids, positions, table)
    for place in range(ids.numel()):
        bad = ids.clone()
        bad.view(-1)[place] = wrong
        with pytest.raises(IndexError):
            compiled(bad, positions, table)


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (0, 3)])
def test_no_rows(size: tuple[int, int]) -> None:
    args = operands(1, 1)[0].new_zeros(size), torch.randn(size[1], 96), torch.randn(WORDS, 96)
    assert minicompile.compile(embed, dynamic=False)(*args).shape == (*size, 96)


def test_gradients() -> None:
    """Those of a sum of squares of what is normalised are all but zero: rounding errors are most of them."""
    ids, *weights = operands(4, 6)

    def gradients(fn: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        leaves = [weight.to(dtype, copy=True).requires_grad_() for weight in weights]
        return list(torch.autograd.grad(fn(ids, *leaves).square().sum(), leaves))

    exact, eager = gradients(take, torch.float64), gradients(take, torch.float32)
    for got, wanted, expected in zip(
        gradients(minicompile.compile(take, dynamic=False), torch.float32), exact, eager, strict=True
    ):
        assert_as_accurate(got, expected, wanted)


def test_neighbours_that_share_most_are_taken_together() -> None:
    """Not two words of a sentence, but one of each of two: their position is loaded once."""
    text = source(embed, *operands(4, 6))
    assert "p0 < 2;" in text and "p1 < 6;" in text
    loop = text.partition("omp simd")[2].partition("}")[0]
    assert loop.count("= in1[") == 2 and loop.count("= in2[") == 1
    assert "p1 < 3;" in source(embed, *operands(3, 6)), "the other axis is odd"
    assert "p1 < 7;" in source(embed, *operands(3, 7)), "none is even"


def test_threads_from_as_many_elements_as_before() -> None:
    norm = lambda x: F.layer_norm(x, x.shape[1:])  # noqa: E731
    text = source(norm, torch.randn(40, 512))
    assert "p0 < 20;" in text and "omp parallel" in text
    assert "omp parallel" not in source(norm, torch.randn(32, 512))


SUMS = {"sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1), "squares": lambda x: (x * x).sum(-1),
        "with a result": lambda x: x.sum(-1) * 2 + 1}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("fn", SUMS.values(), ids=list(SUMS))
def test_sums_of_long_rows_four_at_a_time(
    fn: Callable[[Tensor], Tensor], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "vendor", lambda: "AuthenticAMD")
    for shape in ((256, 4133), (2, 128, 4096), (258, 4133), (257, 4096), (4, 300000)):
        torch.manual_seed(len(shape))
        x = torch.randn(shape, dtype=dtype)
        x[0, 0], x[-1, -1] = 100, -100
        compiled = minicompile.compile(lambda x: fn(x), dynamic=False)
        if dtype is torch.float64:
            torch.testing.assert_close(compiled(x), fn(x))
        else:
            assert_as_accurate(compiled(x), fn(x), fn(x.double()))
        text = compiled.entries[-1].graphs[0].compiled.native_source
        assert (text.count("alignas(64) float lanes_") == row_pairs.STREAMS) == (
            dtype is torch.float32 and shape[-2] % row_pairs.STREAMS == 0 and x.nbytes >= FETCHED)


def test_used_where_it_pays_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(fn: Callable[[Tensor], object], *size: int) -> bool:
        return f"p0 < {size[0]};" not in source(fn, torch.randn(size))

    assert pairs(lambda x: F.layer_norm(x, x.shape[1:]), 64, row_pairs.LONGEST)
    assert not pairs(lambda x: F.layer_norm(x, x.shape[1:]), 64, row_pairs.LONGEST + 1), "long rows"
    assert not pairs(lambda x: F.layer_norm(x, x.shape[1:]), 8192, 256), "fetched ahead from memory"
    assert not pairs(lambda x: F.rms_norm(x, x.shape[1:]), 64, 256), "one wait"
    assert not pairs(lambda x: F.layer_norm(x.exp(), x.shape[1:]), 64, 256), "much work"
    monkeypatch.setattr(row_pairs, "vendor", lambda: "GenuineIntel")
    assert not pairs(lambda x: x.sum(1), 1024, 1024), "its own prefetcher is slower than to be told"
    monkeypatch.setattr(row_pairs, "vendor", lambda: "AuthenticAMD")
    assert pairs(lambda x: x.sum(1), 1024, 1024) and not pairs(lambda x: x.sum(1), 512, 1024), "in cache"
    assert not pairs(lambda x: x.sum(1), 1025, 1024) and not pairs(lambda x: x.sum(1), 2048, 512), "a part of a page"
    assert not pairs(lambda x: x.amax(1), 1024, 1024) and not pairs(lambda x: x.exp().sum(1), 1024, 1024)
