"""Views that show memory otherwise than the tensor that it is of: `z.real`, `x.view(torch.int32)`, `z.conj()`.

In: a tensor, and dtype, shape, strides, offset and lazy bit of the view. Out: the view. Autograd differentiates it
between complex numbers and their parts; between other dtypes it has no say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
"""Of complex numbers, by dtype."""


def view_as(
    base: torch.Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], offset: int, lazy: str = ""
) -> Any:
    """The view of `base`'s memory; `strides` and `offset`, from where `base` begins, count elements of `dtype`. `lazy`:
    "conj" or "neg" for one that shows the numbers conjugated or with the other sign."""
    shown = _shown_as(base, dtype, shape, strides, offset)
    return _LAZY[lazy](shown) if lazy else shown


_LAZY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"conj": torch.conj, "neg": torch._neg_view}


def lazy_bit(view: torch.Tensor, base: torch.Tensor) -> str | None:
    """How a view shows the numbers that `base` shows, as `view_as` takes it; None where it takes more than that."""
    if view.dtype is not base.dtype and (base.is_conj() or base.is_neg()):
        return None
    bits = view.is_conj() is not base.is_conj(), view.is_neg() is not base.is_neg()
    return {(False, False): "", (True, False): "conj", (False, True): "neg"}.get(bits)


def _shown_as(base: torch.Tensor, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    if dtype is base.dtype:
        return base.as_strided(shape, strides, base.storage_offset() + offset)
    if _PARTS.get(dtype) is base.dtype:
        pairs = (*shape, 2), (*(2 * stride for stride in strides), 1), base.storage_offset() + 2 * offset
        return torch.view_as_complex(base.as_strided(*pairs))
    shown = torch.view_as_real(base) if _PARTS.get(base.dtype) is dtype else _in_a_row(base).view(dtype)
    return shown.as_strided(shape, strides, shown.storage_offset() + offset)


def offset_between(view: torch.Tensor, base: torch.Tensor) -> Any:
    """How far behind the beginning of `base` a view of its memory begins, in elements of the view's."""
    if view.dtype is base.dtype:
        return view.storage_offset() - base.storage_offset()
    size = view.element_size()
    return (view.storage_offset() * size - base.storage_offset() * base.element_size()) // size


def _in_a_row(base: torch.Tensor) -> torch.Tensor:
    """All memory from the first to the last element, in one dimension."""
    last = sum((size - 1) * stride for size, stride in zip(base.shape, base.stride(), strict=True))
    return base.as_strided((last + 1 if base.numel() else 0,), (1,))
