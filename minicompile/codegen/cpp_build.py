"""Print all kernels of a graph as C++, build them, load their functions.

In: kernels. Out: (source, each kernel's text, a callable for each).

g++ takes its time for each function, so that a large graph is cut where its units fill the processor. Where the cuts
are depends on the kernels alone: a graph has the same units, and finds them in the cache, on any number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from ..timeline import record
from .cpp import print_cpp, translation_unit
from .cpp_tune import tuned
from .kernel_ir import Kernel
from .native_units import NEXT, load_kernels
from .twins import twins

PER_UNIT = 12
"""Kernels of a unit at most; what g++ does before the first is not worth less."""


def build(
    kernels: Sequence[Kernel], seconds: dict[str, float], device: torch.device | None = None, tune: bool = False
) -> tuple[str, list[str], list[Callable[..., None]]]:
    """See the module's docstring. `seconds["native"]` gets the compiler's time; the device is for GPUs."""
    if not kernels:
        return "", [], []
    same = twins(kernels)
    texts = same.noted([print_cpp(kernel) for kernel in same.distinct], kernels, "//")
    source = join_units(texts)
    start = time.perf_counter()
    wanted = [(k.name, len(k.buffers), len(k.symbols)) for k in same.distinct]
    calls = load_kernels(source, wanted)
    if tune:
        calls = tuned(source, wanted, calls)
    span = record("native", start, time.perf_counter())
    seconds["native"] = seconds.get("native", 0.0) + span.end - span.start
    return source, same.spread(texts), same.spread(calls)


def join_units(kernels: Sequence[str]) -> str:
    """All kernels' text, cut into units of nearly as many; people read it, and the disk keeps it."""
    count = -(-len(kernels) // PER_UNIT)
    ends = [len(kernels) * i // count for i in range(count + 1)]
    return NEXT.join(translation_unit(kernels[a:b]) for a, b in zip(ends, ends[1:], strict=False))
