"""Which OpenMP runtime torch has loaded, so that kernels share its pool of threads.

Torch's wheels bring a libgomp of their own. A kernel that pulled in another one would have a second pool, deaf to
`torch.set_num_threads` and competing for the same cores. Out: the loaded file, to be named on the linker's command
line: the kernel then asks for that file's SONAME (which some wheels have renamed), and the loader hands it the copy
that is there already.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_RUNTIME = re.compile(r"lib(gomp|iomp5|omp)[-.\w]*\.so[.\d]*$")


def loaded_runtimes() -> list[Path]:
    """The OpenMP runtimes mapped into this process, in the order of their addresses; more than one is a fault."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    files = (line.split(maxsplit=5)[5] for line in maps.splitlines() if "omp" in line and "/" in line)
    return [Path(file) for file in dict.fromkeys(files) if _RUNTIME.search(file)]


@functools.cache
def torch_runtime() -> Path | None:
    """The runtime that torch runs on, or None where torch has none; imports torch."""
    import torch

    runtimes = loaded_runtimes()
    beside_torch = Path(torch.__file__).parent.parent
    own = [path for path in runtimes if path.is_relative_to(beside_torch)]
    return next(iter(own or runtimes), None)
