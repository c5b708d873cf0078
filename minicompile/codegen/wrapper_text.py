"""From the text of a wrapper to its function: registered in linecache, so that tracebacks and pdb show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from ..runtime.runs import Run, load_run
from ..runtime.written import StoredCode, written_function
from .cpp_tune import TunedKernel
from .extern_calls import quickest

_serial = count()


def compile_wrapper(
    name: str, source: str, objects: Mapping[str, Any], stored: StoredCode | None = None
) -> Callable[..., Any]:
    """The text's function `call`; its globals are `objects`, or what is the same and quicker."""
    filename = f"<minicompile {name} wrapper {next(_serial)}>"
    namespace: dict[str, Any] = {"math": math}  # size expressions call it
    namespace.update((name, quickest(value)) for name, value in objects.items())
    namespace.update((name, load_run(value, namespace)) for name, value in objects.items() if isinstance(value, Run))
    for place, value in namespace.items():
        if isinstance(value, TunedKernel):
            value.bind(namespace, place)
    return written_function(source, filename, namespace, stored)
