"""Print all kernels of a graph as C++, build them, load their functions.

In: kernels. Out: (source, each kernel's text, a callable for each).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from ..timeline import record
from .cpp import print_cpp
from .cpp_tune import tuned
from .kernel_ir import Kernel
from .native_units import join_units, load_kernels
from .twins import twins


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
