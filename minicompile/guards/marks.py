"""What a program has said of a tensor's sizes, to us (`minicompile.mark_dynamic`) or to torch (`torch._dynamo`'s).

In: a tensor. Out: the dimensions whose sizes are to be symbols, those whose sizes are not, and bounds.
"""

from __future__ import annotations

import torch

_DYNAMIC = ("_minicompile_dynamic", "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices")
_STATIC = ("_minicompile_static", "_dynamo_static_indices")


def marked_dynamic(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions whose sizes are to be symbols."""
    return _marks(tensor, _DYNAMIC)


def marked_static(tensor: torch.Tensor) -> frozenset[int]:
    """Dimensions whose sizes never are."""
    return _marks(tensor, _STATIC)


def marked_ranges(tensor: torch.Tensor) -> dict[int, tuple[int | None, int | None]]:
    """Dimension → the least and the largest size that an entry is for, both included; None: no bound."""
    theirs = getattr(tensor, "_dynamo_dynamic_range", ())
    bounds = {row.dim % tensor.dim(): (row.min, row.max) for row in theirs if (row.min, row.max) != (None, None)}
    return {**bounds, **getattr(tensor, "_minicompile_ranges", {})}


def _marks(tensor: torch.Tensor, names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(dim % tensor.dim() for name in names for dim in getattr(tensor, name, ()))


__all__ = ["marked_dynamic", "marked_ranges", "marked_static"]
