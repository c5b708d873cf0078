"""What this machine offers, and what to do about the rest: the rows of `minicompile doctor`.

In: nothing. Out: a list of `Row`s, each found out by one small function. A check that fails in a way nobody thought of
becomes a row that says so; the doctor itself never fails.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One finding.

    Attributes:
        name: what was looked for.
        found: what was found, in a few words.
        ok: whether minicompile can use it to the full.
        advice: what to do, when it isn't ok; else "".
        required: whether nothing works without it.
    """

    name: str
    found: str
    ok: bool = True
    advice: str = ""
    required: bool = False


Finding = tuple[str, bool, str]
"""What was found, whether it is ok, what to do."""


def rows() -> list[Row]:
    """All findings, in the order in which a reader wants them. Imports torch."""
    return [_examined(name, examine) for name, examine in CHECKS.items()]


def collect() -> dict[str, Row]:
    """The same, by name."""
    return {row.name: row for row in rows()}


def _examined(name: str, examine: Callable[[], Finding]) -> Row:
    try:
        found, ok, advice = examine()
    except Exception as problem:  # whatever is broken on a machine: that is what the doctor is there to say
        found, ok, advice = f"{type(problem).__name__}: {problem}", False, "this check failed; please report it"
    return Row(name, found, ok, advice, name in REQUIRED)


def _python() -> Finding:
    found = f"{platform.python_implementation()} {platform.python_version()}"
    tested = (3, 11) <= sys.version_info[:2] <= (3, 13) and sys.implementation.name == "cpython"
    return found, tested, "" if tested else "CPython 3.11 to 3.13 is what is tested"


def _torch() -> Finding:
    import torch

    enough = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 11)
    return torch.__version__, enough, "" if enough else "torch 2.11 or newer is needed"


def _compiler() -> Finding:
    from minicompile.runtime import cpp_build

    found = cpp_build.compiler()
    if found is None:
        return "none", False, cpp_build.missing_message() + " Until then graphs for the CPU run eagerly."
    if not found.version:
        return str(found.path), False, "it does not run: try it with --version"
    return f"{found.path}: {found.version}", True, ""


def _simd() -> Finding:
    from minicompile.runtime import cpu

    level = cpu.simd_name()
    known = level != "scalar"
    return level, known, "" if known else "the processor's features are unknown; the compiler decides by itself"


def _openmp() -> Finding:
    import torch

    from minicompile.runtime import openmp

    runtime, loaded = openmp.torch_runtime(), openmp.loaded_runtimes()
    if runtime is None:
        return "none", False, "this torch has no OpenMP; kernels run on one thread"
    value = f"{torch.get_num_threads()} threads, {runtime}"
    if len(loaded) > 1:
        others = ", ".join(str(path) for path in loaded if path != runtime)
        return value, False, f"another OpenMP runtime is loaded and will compete for cores: {others}"
    return value, True, ""


def _triton() -> Finding:
    from importlib import metadata

    try:
        return metadata.version("triton"), True, ""
    except metadata.PackageNotFoundError:
        return "none", False, "pip install triton, to compile for a GPU"


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())), True, ""
    if torch.version.cuda is None:
        return "none (this torch was built for the CPU)", True, ""
    return "none", True, ""


def _drawing() -> Finding:
    from minicompile.errors import DrawingUnavailable
    from minicompile.ir.dot import layout_engine

    try:
        return layout_engine(), True, ""
    except DrawingUnavailable as error:
        return "none", False, str(error)


def _cache() -> Finding:
    from minicompile.runtime import cache

    info = cache.info()
    if info.temporary:
        advice = f"{cache.requested_dir()} can't be used; set {cache.ENVIRONMENT_VARIABLE} to a folder of your own"
        return str(info), False, advice
    return str(info), True, ""


def _hook() -> Finding:
    from minicompile.frontend import hook

    if hook.available():
        return "frame evaluation (PEP 523)", True, ""
    advice = "functions are compiled through a wrapper; install a C compiler and minicompile again for the hook"
    return f"none: {hook.unavailable_reason()}", False, advice


def _launcher() -> Finding:
    from minicompile.runtime import launch

    if launch.native_launcher():
        return "C extension", True, ""
    return "ctypes", False, "kernels start 1 µs later; install a C compiler and minicompile again"


REQUIRED = frozenset({"Python", "torch"})

CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": _python,
    "torch": _torch,
    "C++ compiler": _compiler,
    "SIMD": _simd,
    "OpenMP": _openmp,
    "Triton": _triton,
    "GPU": _gpu,
    "drawing": _drawing,
    "cache folder": _cache,
    "frame hook": _hook,
    "kernel launcher": _launcher,
}
