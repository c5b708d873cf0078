"""What eager refuses, and torch's fake tensors let pass: checks that tracing makes in their place.

In: ATen calls on fake tensors. Out: nothing, or the kind of error that eager raises.

Under symbolic sizes a check is an assumption about them, and so a guard: an entry for `x[n]` is then for the sizes that
`n` is in range of, and not for those where it would read beyond the end. Which operators need it differs between
torch's releases (2.11 has no range for `select`); a check that torch makes as well is known to hold and adds no guard.
tests/ir/test_fake_checks.py calls each with what eager refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..shape_env import data_symbols

aten = torch.ops.aten
Check = Callable[..., None]


def _select(self: torch.Tensor, dim: int, index: Any) -> None:
    if self.dim():  # else torch's own rule refuses
        size = self.shape[dim]
        torch._check_index(-size <= index)
        torch._check_index(index < size)


def _select_scatter(self: torch.Tensor, src: torch.Tensor, dim: int, index: Any) -> None:
    _select(self, dim, index)
    _fits(src, [size for place, size in enumerate(self.shape) if place != dim % self.dim()])


def _view_scatter(view: Callable[..., torch.Tensor]) -> Check:
    """For an operator that puts `src` in the place of a view, which the other arguments describe."""

    def check(self: torch.Tensor, src: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        _fits(src, view(self, *args, **kwargs).shape)

    return check


def _index_add(self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1) -> None:
    """Rows of `source` go where `index` says; all but dimension `dim` are as large as `self`'s."""
    if self.dim() and self.dim() == source.dim():
        for place, (size, wanted) in enumerate(zip(source.shape, self.shape, strict=True)):
            torch._check(place == dim % self.dim() or size == wanted)


def _index_copy(self: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> None:
    if source.dim():
        torch._check_index(index.numel() == source.shape[dim])


def _masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> None:
    torch._check(mask.dtype is torch.bool)


def _bucketize(input: torch.Tensor, boundaries: torch.Tensor, **options: Any) -> None:
    torch._check(boundaries.dim() == 1)


def _dimension(self: torch.Tensor, dim: int = -1, *_: Any) -> None:
    rank = max(self.dim(), 1)
    torch._check_index(-rank <= dim < rank)


def _not_empty(self: torch.Tensor, dim: Any = None, *_: Any, **__: Any) -> None:
    """There is no largest of no elements. (Torch's own rules do not ask where the data tells how many there are.)"""
    dims = dim if isinstance(dim, (tuple, list)) else [] if dim is None else [dim]
    for size in [self.shape[place] for place in dims] if dims and self.dim() else [self.numel()]:
        if data_symbols(size):
            torch._check(size != 0)


def _norm_not_empty(self: torch.Tensor, ord: Any = 2, dim: Any = None, *_: Any, **__: Any) -> None:
    if isinstance(ord, (int, float)) and (ord < 0 or ord == float("inf")):  # a largest or a smallest one
        _not_empty(self, dim)


def _fits(src: torch.Tensor, shape: Sequence[Any]) -> None:
    torch._check(src.dim() == len(shape))
    for size, wanted in zip(src.shape, shape, strict=True):
        torch._check(size == wanted)


CHECKS: dict[Any, Check] = {
    aten.select.int: _select,
    aten.select_copy.int: _select,
    aten.select_scatter.default: _select_scatter,
    aten.slice_scatter.default: _view_scatter(aten.slice.Tensor),
    aten.diagonal_scatter.default: _view_scatter(aten.diagonal.default),
    aten.as_strided_scatter.default: _view_scatter(aten.as_strided.default),
    **dict.fromkeys((aten.index_add.default, aten.index_add_.default), _index_add),
    **dict.fromkeys((aten.index_copy.default, aten.index_copy_.default), _index_copy),
    **dict.fromkeys((aten.masked_scatter.default, aten.masked_scatter_.default), _masked_scatter),
    aten.bucketize.Tensor: _bucketize,
    **dict.fromkeys(
        (aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.max.dim, aten.min.dim,
         aten.argmax.default, aten.argmin.default, aten.median.default, aten.median.dim, aten.nanmedian.default,
         aten.nanmedian.dim, aten.mode.default, aten.logsumexp.default),
        _not_empty,
    ),
    **dict.fromkeys((aten.linalg_vector_norm.default, aten.norm.ScalarOpt_dim, aten.norm.Scalar), _norm_not_empty),
    **dict.fromkeys((aten._softmax.default, aten.sort.default), _dimension),
}


def check(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what eager raises for this call, where torch's fake tensors do not."""
    known = CHECKS.get(func)
    if known is not None:
        known(*args, **kwargs)
