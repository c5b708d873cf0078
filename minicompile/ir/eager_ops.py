"""The vocabulary of printed graphs: the IR's ops as functions on torch tensors.

In: tensors and scalars.
Out: tensors. `from minicompile.ir import eager_ops as ops` is the first line of what `Graph.print()` writes.

Every pointwise op and reduction of the op table is here by its name (`ops.exp(x)`, `ops.amax(x, (1,))`); scalars take
the dtype of the tensors beside them, and reductions keep their dimensions, as in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .called_operators import Flattened, FromOwnStart, FromState, Recording, SavingState
from .laid_out import strided
from .ops import POINTWISE, REDUCTIONS, SCANS
from .reference import gather as _gather
from .reference import pointwise
from .retyped import view_as

__all__ = ["Flattened", "FromOwnStart", "FromState", "Recording", "SavingState", "strided"]


def __getattr__(name: str) -> Callable[..., torch.Tensor]:
    if name in REDUCTIONS:
        return lambda x, dims: REDUCTIONS[name].torch(x, dims, True)
    if name in SCANS:
        return SCANS[name].torch
    if name in POINTWISE:
        return lambda *args: pointwise(name, args)
    raise AttributeError(f"no op {name!r} in the IR")


def full(shape: Sequence[int], value: Any, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """A tensor of one value."""
    return torch.full(tuple(shape), value, dtype=dtype, device=device)


def iota(shape: Sequence[int], dim: int, device: str = "cpu") -> torch.Tensor:
    """The int64 index along `dim`."""
    column = [-1 if i == dim else 1 for i in range(len(shape))]
    return torch.arange(shape[dim], device=device).reshape(column).expand(tuple(shape))


def gather(
    source: torch.Tensor, *indices: torch.Tensor, dims: Sequence[int], masked: bool = False, checked: str = ""
) -> torch.Tensor:
    """The source's elements at the indices along `dims`; where the last argument, the mask, is false: 0."""
    return _gather(source, indices, dims, masked, checked)


def backwards(x: torch.Tensor, dim: int, start: int, length: int, step: int) -> torch.Tensor:
    """`length` elements along `dim` from `start` on, by a negative step."""
    return x.index_select(dim, torch.arange(length, device=x.device) * step + start)


def view(
    x: torch.Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0, dtype: torch.dtype | None = None,
    lazy: str = "",
) -> torch.Tensor:  # fmt: skip
    """A view of x's own memory, maybe in another dtype or with a lazy bit; `offset` counts from x's first element."""
    return view_as(x, dtype or x.dtype, shape, strides, offset, lazy)
