"""The next row of a table is asked for: where rows are gathered, and without reading an index that is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import minicompile

TABLE = torch.randn(2000, 768)


def embed(i: Tensor, table: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(i, table), (table.shape[1],))


def asks(compiled: minicompile.Compiled[..., object]) -> bool:
    return "next_v" in compiled.entries[-1].graphs[0].compiled.native_source


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [embed, lambda i, t: t[i].sum(-1), lambda i, t: (t[i] * t[i.flip(0)]).sum(-1)])
def test_the_next_row_is_asked_for(fn: Callable[[Tensor, Tensor], Tensor], dynamic: bool) -> None:
    compiled = minicompile.compile(fn, dynamic=dynamic)
    for count in (700, 8, 64, 2):
        i = torch.randint(2000, (count, 3))
        torch.testing.assert_close(compiled(i, TABLE), fn(i, TABLE), rtol=1e-5, atol=1e-4)
    assert asks(compiled)


def test_indices_from_the_end_and_wrong_ones() -> None:
    compiled = minicompile.compile(lambda i, t: t[i].sum(-1))
    i = torch.tensor([-1, 0, -2000, 1999, 5, -7, 3, 4])
    torch.testing.assert_close(compiled(i, TABLE), TABLE[i].sum(-1), rtol=1e-5, atol=1e-4)
    for place in (0, 3, 7):
        wrong = i.clone()
        wrong[place] = 2000 if place else -2001
        with pytest.raises(IndexError):
            compiled(wrong, TABLE)
    assert asks(compiled)


def test_no_index_is_read_beyond_the_last() -> None:
    """The indices end where their page does: another read would end the process."""
    import mmap

    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    memory = torch.frombuffer(pages, dtype=torch.int64)
    count = mmap.PAGESIZE // 8
    i = memory[:count].copy_(torch.randint(2000, (count,)))
    memory[count:] = 1 << 60
    compiled = minicompile.compile(lambda i, t: t[i].sum(-1))
    torch.testing.assert_close(compiled(i, TABLE), TABLE[i].sum(-1), rtol=1e-5, atol=1e-4)
    source = compiled.entries[0].graphs[0].compiled.native_source
    assert f"p0 + 1 < {count} ? p0 + 1 : p0" in source


@pytest.mark.parametrize("fn", [
    lambda i, t: t[i] * 2,  # no reduction: a row is read without a wait in between
    lambda i, t: t[:, :64][i].sum(-1),  # a short row
    lambda i, t: t[:1000, :768].clone()[i[0] * 0].sum(-1),  # one row
])  # fmt: skip
def test_not_for_others(fn: Callable[[Tensor, Tensor], Tensor]) -> None:
    compiled, i = minicompile.compile(fn), torch.randint(1000, (50,))
    torch.testing.assert_close(compiled(i, TABLE), fn(i, TABLE), rtol=1e-5, atol=1e-4)
    assert not asks(compiled)
