"""Which dtypes hold every value of another: the casts that lose nothing.

In: two dtypes.
Out: whether `x.to(wide).to(narrow)` is x, for every x of `narrow`, NaN and -0.0 included.
"""

from __future__ import annotations

import torch

from ..ir.types import dtype_kind

_SIGNIFICAND = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
_EXPONENT = {torch.float64: 11, torch.float32: 8, torch.float16: 5, torch.bfloat16: 8}


def is_exact(narrow: torch.dtype, wide: torch.dtype) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if narrow is wide or narrow is torch.bool:
        return True
    kinds = dtype_kind(narrow) + dtype_kind(wide)
    if kinds == "ff":
        return _SIGNIFICAND.get(narrow, 99) <= _SIGNIFICAND.get(wide, 0) and _EXPONENT[narrow] <= _EXPONENT[wide]
    if kinds == "if":
        return _magnitude_bits(narrow) <= _SIGNIFICAND.get(wide, 0) and wide is not torch.float16
    if kinds == "ii":
        a, b = torch.iinfo(narrow), torch.iinfo(wide)
        return b.min <= a.min and a.max <= b.max
    return False


def _magnitude_bits(dtype: torch.dtype) -> int:
    return max(torch.iinfo(dtype).max.bit_length(), (-torch.iinfo(dtype).min).bit_length())
