"""Find the C++ compiler and say how it is called.

In: $CXX, else the first of g++, c++ and clang++ on the PATH. Out: a CompilerInfo and its command line. A compiler is
told apart by its file (path, size, time of change) rather than by asking it for its version, so that a process whose
kernels are all cached starts no other process.
"""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CANDIDATES = ("g++", "c++", "clang++")

# Values as in eager: errno and traps are nobody's business, but no flag of -ffast-math's family that changes a value
# (NaN, infinities, signed zeros, order of additions), and no multiply and add contracted into one rounding.
# Integers wrap as torch's do. Buffers of one dtype may be reused for another: no type-based alias analysis.
SEMANTICS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing")
BUILD = ("-x", "c++", "-std=c++17", "-O3", "-fopenmp", "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti")
WARNINGS = ("-w",)  # generated code: what matters about it is tested, not warned about


@dataclass(frozen=True)
class CompilerInfo:
    """A C++ compiler: `command` as it is started ($CXX may hold arguments, or a launcher such as ccache)."""

    command: tuple[str, ...]
    path: Path

    @functools.cached_property
    def version(self) -> str:
        """The first line of --version; "" when the compiler doesn't run."""
        try:
            shown = subprocess.run([*self.command, "--version"], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return shown.stdout.partition("\n")[0].strip() if shown.returncode == 0 else ""

    def identity(self) -> str:
        """Text that changes whenever another compiler, or another release of it, would be run."""
        status = self.path.stat()
        return f"{' '.join(self.command)}|{self.path.resolve()}|{status.st_size}|{status.st_mtime_ns}"

    def flags(self) -> tuple[str, ...]:
        """All flags but the files'."""
        return (*BUILD, *machine_flags(), *SEMANTICS, *WARNINGS)


def compiler() -> CompilerInfo | None:
    """The compiler that kernels are built with, or None. A $CXX that doesn't exist counts as no compiler."""
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@functools.cache
def _find(cxx: str, search_path: str) -> CompilerInfo | None:
    for candidate in [cxx] if cxx.strip() else CANDIDATES:
        command = shlex.split(candidate)
        found = shutil.which(command[0], path=search_path)
        if found is not None:
            return CompilerInfo(tuple(command), Path(found))
    return None


def machine_flags() -> tuple[str, ...]:
    """Flags for this very processor. 512-bit vectors are asked for where there are any: gcc's default is 256."""
    machine = platform.machine()
    if machine in ("x86_64", "AMD64"):
        return ("-march=native", "-mprefer-vector-width=512")
    if machine in ("aarch64", "arm64"):
        return ("-mcpu=native",)
    return ()
