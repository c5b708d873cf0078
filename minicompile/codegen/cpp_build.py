"""Print all kernels of a graph as one C++ translation unit, build it, load its functions.

In: kernels. Out: (source, each kernel's text, a callable for each).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from ..runtime.cpp_build import build_shared_object
from ..runtime.launch import load_kernel
from .cpp import print_cpp, translation_unit
from .kernel_ir import Kernel
from .native_text import without_origins
from .twins import twins


def build(
    kernels: Sequence[Kernel], seconds: dict[str, float], device: torch.device | None = None, tune: bool = False
) -> tuple[str, list[str], list[Callable[..., None]]]:
    """See the module's docstring. `seconds["native"]` gets the compiler's time; device and tuning are for GPUs."""
    if not kernels:
        return "", [], []
    same = twins(kernels)
    texts = same.noted([print_cpp(kernel) for kernel in same.distinct], kernels, "//")
    source = translation_unit(texts)
    start = time.perf_counter()
    library = build_shared_object(without_origins(source))
    seconds["native"] = time.perf_counter() - start
    calls = [load_kernel(library, k.name, len(k.buffers), len(k.symbols)) for k in same.distinct]
    return source, same.spread(texts), same.spread(calls)
