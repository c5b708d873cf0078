"""From the text of a wrapper to its function: registered in linecache, so that tracebacks and pdb show it."""

from __future__ import annotations

import linecache
import math
from collections.abc import Mapping
from itertools import count
from typing import Any

from ..runtime.runs import Run, load_run
from .cpp_tune import TunedKernel
from .extern_calls import quickest

_serial = count()


def compile_wrapper(name: str, source: str, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The namespace in which the text has run: `objects`, or what is the same and quicker, and the function `call`."""
    filename = f"<minicompile {name} wrapper {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"math": math}  # size expressions call it
    namespace.update((name, quickest(value)) for name, value in objects.items())
    namespace.update((name, load_run(value, namespace)) for name, value in objects.items() if isinstance(value, Run))
    exec(compile(source, filename, "exec"), namespace)
    for place, value in namespace.items():
        if isinstance(value, TunedKernel):
            value.bind(namespace, place)
    return namespace
