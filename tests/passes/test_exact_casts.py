"""The table of exact casts against the casts themselves: every value of the small dtypes, edges of the large ones."""

from __future__ import annotations

import pytest
import torch

from minicompile.passes.exact_casts import is_exact

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
]


def samples(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype in (torch.float16, torch.bfloat16):
        return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        edges = [0.0, -0.0, info.max, info.tiny, 1 + info.eps, float("nan"), float("-inf"), 2.0**24 + 2]
        return torch.tensor(edges, dtype=dtype)
    info = torch.iinfo(dtype)
    if info.bits <= 16:
        return torch.arange(info.min, info.max + 1, dtype=torch.int64).to(dtype)
    return torch.tensor([info.min, info.min + 1, -1, 0, 1, 2**24 + 1, info.max - 1, info.max], dtype=dtype)


@pytest.mark.parametrize("wide", DTYPES)
@pytest.mark.parametrize("narrow", DTYPES)
def test_table(narrow, wide):
    """Claimed exact, a round trip gives every sample back; and where the samples lose something, it is not claimed."""
    values = samples(narrow)
    back = values.to(wide).to(narrow)
    lossless = torch.equal(torch.nan_to_num(back.double(), 0.25), torch.nan_to_num(values.double(), 0.25))
    number = ~values.double().isnan()
    signs = torch.equal(torch.signbit(back.double()[number]), torch.signbit(values.double()[number]))
    if is_exact(narrow, wide):
        assert lossless and (signs or not narrow.is_floating_point)
    elif narrow.is_floating_point and wide.is_floating_point:
        assert not lossless
