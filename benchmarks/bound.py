"""The bandwidth bound of a row, measured beside the row itself.

In: a function and its arguments. Out: a callable that reads as many bytes as the arguments have and writes as many as
the results have, into memory that is allocated on each call as the function's own must be; nothing can do the row's
work faster without keeping results in cache.

It is a C++ kernel of the same build as ours: one pass, all threads, a sum and a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from minicompile.runtime.cpp_build import build_shared_object
from minicompile.runtime.launch import load_kernel
from minicompile.runtime.pages import LARGE, advise

_SOURCE = """
typedef long long i64;
static float read_part(const float *in, i64 begin, i64 end) {
  float sum = 0;
  #pragma omp simd reduction(+:sum)
  for (i64 i = begin; i < end; ++i) sum += in[i];
  return sum;
}
// buffers: in, out; sizes: floats to read, floats to write.
extern "C" int stream(void **buffers, const i64 *sizes) {
  const float *in = (const float *)buffers[0];
  float *out = (float *)buffers[1];
  const i64 reads = sizes[0], writes = sizes[1], parts = 512;
  #pragma omp parallel for schedule(static) if(reads + writes > 16384)
  for (i64 p = 0; p < parts; ++p) {
    const float sum = read_part(in, reads * p / parts, reads * (p + 1) / parts);
    #pragma omp simd
    for (i64 i = writes * p / parts; i < writes * (p + 1) / parts; ++i) out[i] = sum;
  }
  return 0;
}
"""


@cache
def _stream() -> Callable[..., None]:
    return load_kernel(build_shared_object(_SOURCE), "stream", 2, 2)


def tensors_of(values: Any) -> list[torch.Tensor]:
    """All tensors of a nested structure, each once."""
    from torch.utils._pytree import tree_leaves

    found = {id(leaf): leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)}
    return list(found.values())


def bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bound(read_bytes: int, written_bytes: int) -> Callable[[], torch.Tensor]:
    """See the module's docstring."""
    source = torch.randn(max(read_bytes // 4, 1))
    kernel = _stream()

    def run() -> torch.Tensor:
        out = torch.empty(max(written_bytes // 4, 1))
        if written_bytes >= LARGE:
            advise(out)
        kernel(source, out, read_bytes // 4, written_bytes // 4)
        return out

    return run
