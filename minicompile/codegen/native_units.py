"""A graph's kernels as translation units, and those as libraries, built side by side.

In: the kernels' texts. Out: one text that holds all units, which people read and the disk keeps; and from it callables.

g++ takes its time for each function, so that a large graph is cut where its units fill the processor. Where the cuts
are depends on the kernels alone: a graph has the same units, and finds them in the cache, on any number of cores.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..runtime.cpp_build import build_shared_object
from ..runtime.launch import load_kernel
from .cpp import translation_unit
from .native_text import without_origins

PER_UNIT = 12
"""Kernels of a unit at most; what g++ does before the first is not worth less."""

NEXT = "\n//@ the next unit\n"

_ENTRY = re.compile(r'^extern "C" int (\w+)\(', re.MULTILINE)

Wanted = tuple[str, int, int]
"""A kernel to load: its name, how many tensors it takes, how many integers."""


def join_units(kernels: Sequence[str]) -> str:
    """All kernels' text, cut into units of nearly as many."""
    count = -(-len(kernels) // PER_UNIT)
    ends = [len(kernels) * i // count for i in range(count + 1)]
    return NEXT.join(translation_unit(kernels[a:b]) for a, b in zip(ends, ends[1:], strict=False))


def load_kernels(source: str, wanted: Iterable[Wanted]) -> list[Callable[..., None]]:
    """Build every unit of the text, or find it built, and load these kernels.

    Raises CompilerMissing or CompileError.
    """
    units = source.split(NEXT)
    home = {name: path for unit, path in zip(units, _build(units), strict=True) for name in _ENTRY.findall(unit)}
    return [load_kernel(home[name], name, tensors, integers) for name, tensors, integers in wanted]


def _build(units: Sequence[str]) -> list[Path]:
    texts = [without_origins(unit) for unit in units]
    if len(texts) == 1:
        return [build_shared_object(texts[0])]
    with ThreadPoolExecutor(min(len(texts), os.cpu_count() or 1)) as pool:
        return list(pool.map(build_shared_object, texts))
