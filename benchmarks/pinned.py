"""Threads that stay where they are while something is timed.

In: nothing. Out: `pinned()`, a context in which each thread of the OpenMP team that eager, Inductor's kernels and ours
share has a processor of its own.

A kernel sometimes leaves two threads of a team on one processor for seconds, while another is idle: all that uses two
threads then takes twice as long, in many turns of one candidate and none of the next. First calls are not pinned:
compilers start processes, which would inherit the main thread's only processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

from minicompile.codegen.cpp import translation_unit
from minicompile.runtime.cpp_build import build_shared_object
from minicompile.runtime.launch import load_kernel

_BYTES = 128
"""Of a set of processors, a bit for each of 1024, as in glibc's own."""

_SOURCE = """
extern "C" int omp_get_thread_num(void);
extern "C" int sched_setaffinity(int thread, unsigned long bytes, const void *processors);
// buffers: for each thread a set of processors; sizes: threads, bytes of a set.
extern "C" int place(void **buffers, const int64_t *sizes) {
  #pragma omp parallel num_threads(sizes[0])
  sched_setaffinity(0, sizes[1], (const char *)buffers[0] + omp_get_thread_num() * sizes[1]);
  return 0;
}
"""


@cache
def _place() -> Callable[..., None]:
    return load_kernel(build_shared_object(translation_unit([_SOURCE])), "place", 1, 2)


@contextmanager
def pinned() -> Iterator[None]:
    """See the module's docstring. Does nothing where there are more threads than processors, or none to choose."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    threads = torch.get_num_threads()
    if threads > len(allowed) or allowed[-1] >= 8 * _BYTES:
        yield
        return
    _move([[processor] for processor in allowed[:threads]])
    try:
        yield
    finally:
        _move([allowed] * threads)


def _move(sets: list[list[int]]) -> None:
    masks = (sum(1 << processor for processor in processors) for processors in sets)
    rows = b"".join(mask.to_bytes(_BYTES, "little") for mask in masks)
    _place()(torch.frombuffer(bytearray(rows), dtype=torch.uint8), len(sets), _BYTES)
