"""The translation units of a graph as libraries, built side by side.

In: the text that holds all units of a graph (`cpp_build.join_units` cuts them). Out: callables.

A process that recalls a graph from disk comes here too, so nothing of the printers is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..runtime.cpp_build import build_shared_object, find_shared_object
from ..runtime.launch import load_kernel
from .native_text import without_origins

NEXT = "\n//@ the next unit\n"

_ENTRY = re.compile(r'^extern "C" int (\w+)\(', re.MULTILINE)

Wanted = tuple[str, int, int]
"""A kernel to load: its name, how many tensors it takes, how many integers."""


def load_kernels(source: str, wanted: Iterable[Wanted]) -> list[Callable[..., None]]:
    """Build every unit of the text, or find it built, and load these kernels.

    Raises CompilerMissing or CompileError.
    """
    units = source.split(NEXT)
    home = {name: path for unit, path in zip(units, _build(units), strict=True) for name in _ENTRY.findall(unit)}
    return [load_kernel(home[name], name, tensors, integers) for name, tensors, integers in wanted]


def _build(units: Sequence[str]) -> list[Path]:
    texts = [without_origins(unit) for unit in units]
    known = [find_shared_object(text) for text in texts]
    if len(texts) == 1 or None not in known:  # no threads: they would take turns with this one, 5 ms each
        return [path or build_shared_object(text) for path, text in zip(known, texts, strict=True)]
    with ThreadPoolExecutor(min(len(texts), os.cpu_count() or 1)) as pool:
        return list(pool.map(build_shared_object, texts))
