"""Turn the text of a C++ translation unit into a shared object on disk.

In: source that needs no headers, or some of torch's, included by `<ATen/…>`. Out: the path of a library in the disk
cache, named by a hash of all that decides its content: source, flags, compiler, processor, OpenMP runtime, torch's
release if its headers are read. A source that was built before, by whatever process, costs one hash and one look at
the file. The source lies beside the library under the same name.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import struct
import subprocess
import time
from pathlib import Path

from minicompile.errors import CompileError, CompilerMissing
from minicompile.runtime import cache, cpu, openmp
from minicompile.runtime.compiler import CANDIDATES, CompilerInfo, compiler
from minicompile.runtime.cpu import simd_name
from minicompile.torch_compat import header_folder, math_library, torch_release

__all__ = ["CompilerInfo", "build_shared_object", "compiler", "run_compiler", "simd_name"]

log = logging.getLogger("minicompile.cache")

# What a compiler or the system says when the folder is at fault, not the source.
_FOLDER_AT_FAULT = ("No space left on device", "Read-only file system", "Disk quota exceeded", "Permission denied")


_BROKEN_DOWN = "internal compiler error"
"""g++ 12 and 13 break down on some masked minima of bytes for AVX-512."""
_SIMPLER = ["-fno-tree-vectorize", *(["-mno-avx512f"] if platform.machine() in ("x86_64", "AMD64") else [])]
"""Loops that are marked `omp simd` are vectorised all the same."""


def build_shared_object(source: str, further_flags: tuple[str, ...] = ()) -> Path:
    """Build `source`, or find it built. Raises CompilerMissing, or CompileError with what the compiler said."""
    library, command, libraries = _planned(source, further_flags)
    if is_whole_library(library):
        return library
    try:
        return _build(library, source, command, libraries)
    except OSError as problem:
        library = cache.use_temporary(problem) / library.name
    try:
        return _build(library, source, command, libraries)
    except OSError as problem:  # it wasn't the folder
        raise CompileError(library.with_suffix(".cpp"), str(problem)) from problem


def find_shared_object(source: str) -> Path | None:
    """Where `source` stands built, if it does. Raises CompilerMissing."""
    library, _, _ = _planned(source)
    return library if is_whole_library(library) else None


def _planned(source: str, further_flags: tuple[str, ...] = ()) -> tuple[Path, list[str], list[str]]:
    """The library, the compiler's command, and what is linked."""
    found = compiler()
    if found is None:
        raise CompilerMissing(missing_message())
    libraries = libraries_of(source)
    command = [*found.command, *found.flags(), *_header_flags(source), *_linker_flags(source), *further_flags]
    key = _key(source, found, [*command, *libraries])
    return cache.cache_dir() / f"{key}.so", command, libraries


def _header_flags(source: str) -> list[str]:
    """Where torch's headers are, and a macro that tells one release's build from another's."""
    if "#include <ATen/" not in source:
        return []
    return ["-isystem", str(header_folder()), f"-DMC_TORCH={torch_release()}"]


def _linker_flags(source: str) -> list[str]:
    """Without the start files, libstdc++ and libc, whose search takes the linker longer than all else (30 of 40 ms):
    a kernel constructs nothing, and what it calls of libc every process has. libm is among `libraries_of`."""
    return ["-nostdlib"] if _stands_alone(source) else []


def _stands_alone(source: str) -> bool:
    """Whether we know all libraries: no headers of others, and an OpenMP runtime that can be named."""
    return "#include <" not in source and openmp.torch_runtime() is not None


def libraries_of(source: str) -> list[str]:
    """What is linked: torch's OpenMP runtime and, where functions of MKL or Sleef are called, the library of torch that
    has them. The process has loaded both already. Further libm and the compiler's own functions (gcc's atomics on ARM),
    where they are not linked unasked."""
    calls = "_vml(" in source or "_sleef(" in source
    of_torch = [str(path) for path in (openmp.torch_runtime(), math_library() if calls else None) if path is not None]
    return [*of_torch, *(["-lm", "-lgcc"] if _stands_alone(source) else [])]


def missing_message() -> str:
    """One sentence that says what was looked for and what to install."""
    cxx = os.environ.get("CXX", "")
    if cxx.strip():
        return f"No C++ compiler: $CXX is {cxx!r}, which does not exist."
    return (
        f"No C++ compiler: none of {', '.join(CANDIDATES)} is on the PATH. "
        "Install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++)."
    )


def is_whole_library(path: Path) -> bool:
    """Whether `path` is an ELF file that is as long as its own header says (a crash or a full disk may cut one off)."""
    try:
        with path.open("rb") as file:
            header = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return False
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return False
    sections_at, entry_size, entries = (*struct.unpack_from("<Q", header, 40), *struct.unpack_from("<HH", header, 58))
    return size >= sections_at + entry_size * entries  # the table of sections stands last


def _key(source: str, found: CompilerInfo, command: list[str]) -> str:
    parts = [source, found.identity(), *command, cpu.fingerprint()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _build(library: Path, source: str, command: list[str], libraries: list[str]) -> Path:
    """Compile into a scratch file and rename it. OSError when the folder can't take the files."""
    text = cache.write_atomically(library.with_suffix(".cpp"), source.encode())
    scratch = cache.scratch_path(library)
    # -x none: what follows the source is a library. As needed: only the one OpenMP runtime, no libstdc++.
    full = [*command, str(text), "-x", "none", "-Wl,--as-needed", *libraries, "-o", str(scratch)]
    start = time.perf_counter()
    try:
        run_compiler(full, text)
        os.replace(scratch, library)
    finally:
        scratch.unlink(missing_ok=True)
    log.info("built %s in %.2f s", library, time.perf_counter() - start)
    return library


def run_compiler(command: list[str], source: Path) -> None:
    """Run the compiler, once more and more simply if it breaks down. Raises CompilerMissing, CompileError, OSError."""
    output = _complaint(command)
    if _BROKEN_DOWN in output:
        log.warning("%s broke down on %s; built without AVX-512 and its vectorizer", command[0], source)
        output = _complaint([*command, *_SIMPLER])
    if not output:
        return
    if any(sentence in output for sentence in _FOLDER_AT_FAULT):
        raise OSError(output.strip().splitlines()[-1])
    raise CompileError(source, output)


def _complaint(command: list[str]) -> str:
    """What the compiler says, in English, as it is read here; nothing if all went well."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    except OSError as problem:
        raise CompilerMissing(f"The C++ compiler {command[0]} can't be started: {problem}.") from problem
    return "" if run.returncode == 0 else run.stderr or run.stdout or f"exit status {run.returncode}"
