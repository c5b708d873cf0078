"""What, beside a program itself, decides what it is compiled to.

In: this process. Out: one text; two processes that have the same would compile the same code for the same values alike.

It names the package's own files (by size and time of change, so that an edit is a new version), torch, Python, the
processor, and the environment variables that any stage reads.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from . import cpu

_VARIABLES = ("MINICOMPILE_", "TRITON_INTERPRET", "ATEN_CPU_CAPABILITY", "ONEDNN_", "DNNL_", "MKL_", "CXX")
_PLACES = ("MINICOMPILE_CACHE_DIR",)  # where things are kept changes nothing about them


def environment() -> str:
    """The text for this process, as its environment variables are now."""
    names = sorted(name for name in os.environ if name.startswith(_VARIABLES) and name not in _PLACES)
    return "\n".join([_installed(), *(f"{name}={os.environ[name]}" for name in names)])


@functools.cache
def _installed() -> str:
    parts = [_package(), torch.__version__, str(torch.version.git_version), _status(Path(torch.__file__)), sys.version]
    parts += [sys.implementation.cache_tag or "", str(sys.flags), cpu.fingerprint()]
    parts += [str(torch.backends.cpu.get_cpu_capability()), str(torch.version.cuda)]
    if torch.version.cuda:  # programs ask whether there is a GPU
        parts.append(str(torch._C._cuda_getDeviceCount()))
    return "\n".join(parts)


def _package() -> str:
    """A hash over the names, sizes and times of change of all our files."""
    lines = sorted(f"{file.path}|{_status(file)}" for file in _files(os.path.dirname(os.path.dirname(__file__))))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """All files below a folder that code is in. Every new process reads them, and pathlib takes four times as long."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".so", ".h")):
                yield entry


def _status(file: Path | os.DirEntry[str]) -> str:
    status = file.stat()
    return f"{status.st_size}|{status.st_mtime_ns}"
