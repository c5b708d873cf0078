"""The bandwidth bound of a row, measured beside the row itself.

In: a function and its arguments. Out: a callable that reads as many bytes as the arguments have and writes as many as
the results have: nothing can do the row's work faster without keeping data in cache.

It is a C++ kernel of the same build as ours: one pass, all threads, a sum, and stores; large results go past the caches
into memory that was a result before, as ours do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from minicompile.codegen.cpp import translation_unit
from minicompile.codegen.cpp_traffic import STREAMED
from minicompile.runtime.cpp_build import build_shared_object
from minicompile.runtime.launch import load_kernel
from minicompile.runtime.pages import empty_large

_SOURCE = """
static float read_part(const float *in, int64_t begin, int64_t end) {
  float sum = 0;
  for (int64_t i = begin; i < end; i += 16) __builtin_prefetch(in + i + 4096, 0, 2);
  #pragma omp simd reduction(+:sum)
  for (int64_t i = begin; i < end; ++i) sum += in[i];
  return sum;
}
static void write_part(float *out, int64_t count, float value, bool large) {
  alignas(64) float part[1024];
  for (int64_t i = 0; i < 1024; ++i) part[i] = value;
  for (int64_t i = 0; i < count; i += 1024) {
    const int64_t bytes = (count - i < 1024 ? count - i : 1024) * sizeof(float);
    if (large) mc_stream(out + i, part, bytes); else __builtin_memcpy(out + i, part, bytes);
  }
}
// buffers: in, out; sizes: floats to read, floats to write, whether the result is large.
extern "C" int stream(void **buffers, const int64_t *sizes) {
  const float *in = (const float *)buffers[0];
  float *out = (float *)buffers[1];
  const int64_t reads = sizes[0], writes = sizes[1], parts = 2 + (reads + writes) / 8192;
  #pragma omp parallel if(reads + writes > 16384)
  {
    #pragma omp for schedule(static) nowait
    for (int64_t p = 0; p < parts; ++p) {
      const float sum = read_part(in, reads * p / parts, reads * (p + 1) / parts);
      const int64_t first = writes * p / parts;
      write_part(out + first, writes * (p + 1) / parts - first, sum, sizes[2]);
    }
    mc_fence();
  }
  return 0;
}
"""


@cache
def _stream() -> Callable[..., None]:
    return load_kernel(build_shared_object(translation_unit([_SOURCE])), "stream", 2, 3)


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
        out = empty_large((max(written_bytes // 4, 1),), (1,), torch.float32)
        kernel(source, out, read_bytes // 4, written_bytes // 4, int(written_bytes >= STREAMED))
        return out

    return run
