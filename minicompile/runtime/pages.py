"""Memory for large results: that of results that have died (recycled.py), else new memory in huge pages.

In: sizes, strides and a dtype. Out: an empty CPU tensor.

The first touch of each 4 KiB page costs a fault: writing 64 MiB takes 23 ms, of which 16 are faults. Asked for huge
pages, Linux faults 512 times less: 12 ms. An allocation of 32 MiB and more comes from the kernel anew each time
(glibc's largest threshold for mmap); a smaller one from the heap, whose end glibc gives back to the kernel whenever
twice the largest block so far is free there, as after an eager function with several intermediate results: 16 MiB then
cost 3.4 ms of faults in a kernel of 1.4 ms. Asking for pages that are there already costs a microsecond.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from .recycled import RECYCLER, empty_recycled

LARGE = 4 << 20
"""Bytes from which a result is worth the system call."""

_PAGE = 4096
_MADV_HUGEPAGE = 14  # Linux


@functools.cache
def _madvise() -> Callable[..., int] | None:
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):  # not Linux
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function


def advise(tensor: torch.Tensor) -> torch.Tensor:
    """Ask for huge pages for the tensor's memory; a system that has none says no, and nothing changes."""
    madvise = _madvise()
    start = -(-tensor.data_ptr() // _PAGE) * _PAGE
    end = (tensor.data_ptr() + tensor.untyped_storage().nbytes()) // _PAGE * _PAGE
    if madvise is not None and end > start:
        madvise(start, end - start, _MADV_HUGEPAGE)
    return tensor


def empty_large(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, *_: Any) -> torch.Tensor:
    """torch.empty_strided on the CPU, in memory that is there already or huge pages, if it is large indeed (symbolic
    sizes were so while tracing)."""
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    size = (last + 1) * dtype.itemsize
    if size < LARGE or 0 in sizes:
        return torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")
    result = empty_recycled(size, sizes, strides, dtype)
    if result is None:
        result = advise(torch.empty_strided(sizes, strides, dtype=dtype, device="cpu"))
        RECYCLER.remember(result.untyped_storage())
    return result
