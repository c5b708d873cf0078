"""One Triton kernel: rows are added to the rows that an index names, by atomic additions.

In: a contiguous tensor that is added to, the index, and as many contiguous rows. Out: nothing; the tensor has changed.

    target[outer, index[i], inner] += source[outer, i, inner]

Which of two additions to one element comes first is not known, as in eager's own atomic kernels. An index that is out
of range stops the kernel. Compiled once for each device and pair of dtypes; sizes are arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..runtime.launch_cuda import Launch, cuda_kernel
from .triton_compat import compile_for, load
from .triton_text import POINTERS

BLOCK, WARPS = 512, 4

NARROW = 1 << 30
"""Elements up to which offsets have 32 bits."""

NAMES = ("target", "index", "source", "total", "count", "size", "inner", "skipped")
OPTIONS = {"num_warps": WARPS, "enable_fp_fusion": False, "debug": True, "sanitize_overflow": False}


@triton.jit
def add_rows_kernel(
    target, index, source, total, count, size, inner, skipped,
    WRAPS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    x = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if not WIDE:  # divisions of 32 bits are faster
        x, total, count = x.to(tl.int32), total.to(tl.int32), count.to(tl.int32)
        size, inner, skipped = size.to(tl.int32), inner.to(tl.int32), skipped.to(tl.int32)
    inside = x < total
    row = x // inner
    place = tl.load(index + row % count, inside, other=0)
    low = -size if WRAPS else 0
    tl.device_assert(((place >= low) & (place < size)) | (x >= total), "index out of range")
    place = tl.where(place < 0, place + size, place).to(x.dtype)
    value = tl.load(source + x, inside, other=0).to(target.dtype.element_ty)
    where = target + ((row // count * size + place) * inner + x % inner)
    tl.atomic_add(where, value, inside & (place != skipped), sem="relaxed")


def add_rows(target: Tensor, dim: int, index: Tensor, source: Tensor, wraps: bool, skipped: int = -1) -> None:
    """See the module's docstring.

    Args:
        target, source: contiguous, of equal sizes but along `dim`.
        index: of one dimension.
        wraps: whether indices may count from the end.
        skipped: rows for this place are left out.
    """
    inner = math.prod(source.shape[dim + 1 :])
    sizes = (source.numel(), index.numel(), target.shape[dim], inner, skipped)
    tensors = (target, index.contiguous(), source)
    is_wide = max(target.numel(), source.numel()) > NARROW
    if target.device.type != "cuda":
        from .triton_interpreter import prepare_interpreter

        prepare_interpreter()
        add_rows_kernel[(-(-sizes[0] // BLOCK),)](*tensors, *sizes, WRAPS=wraps, WIDE=is_wide, BLOCK=BLOCK)
        return
    is_aligned = all(tensor.data_ptr() % 16 == 0 for tensor in tensors)
    is_even = sizes[0] % 16 == inner % 16 == 0
    form = Form(target.dtype, index.dtype, source.dtype, wraps, is_wide, is_aligned, is_even)
    if target.device.index == torch.cuda.current_device():
        _launch(target.device.index, form, sizes)(*tensors)
    else:
        with torch.cuda.device(target.device):
            _launch(target.device.index, form, sizes)(*tensors)


class Form(NamedTuple):
    """What the kernel is compiled for. `is_even`: whether the numbers of all elements and of those of a row that are
    neighbours are divisible by 16."""

    target: torch.dtype
    index: torch.dtype
    source: torch.dtype
    wraps: bool
    is_wide: bool
    is_aligned: bool
    is_even: bool

    def compiled(self, arch: int) -> Any:
        """Triton's compiled kernel; needs no GPU."""
        constants = {"WRAPS": self.wraps, "WIDE": self.is_wide, "BLOCK": BLOCK}
        signature = {name: POINTERS[dtype] for name, dtype in zip(NAMES, self[:3], strict=False)}
        signature.update(dict.fromkeys(NAMES[3:], "i64"))
        signature.update(dict.fromkeys(constants, "constexpr"))
        divisible = [*(NAMES[:3] if self.is_aligned else ()), *(("total", "inner") if self.is_even else ())]
        return compile_for(add_rows_kernel, signature, constants, tuple(map(NAMES.index, divisible)), OPTIONS, arch)


@lru_cache(maxsize=256)
def _launch(device: int, form: Form, sizes: tuple[int, ...]) -> Callable[..., None]:
    handle = _loaded(device, form)
    shape = (-(-sizes[0] // BLOCK), handle.threads, handle.shared, 3, sizes, handle.hidden)
    return cuda_kernel(Launch("add_rows", handle.function, *shape, device, False, _never))


@lru_cache(maxsize=64)
def _loaded(device: int, form: Form) -> Any:
    major, minor = torch.cuda.get_device_capability(device)
    return load(form.compiled(10 * major + minor), device, len(NAMES))


def _never(*_: Tensor) -> None:
    raise AssertionError("the device is current, and the kernel is for the addresses")
