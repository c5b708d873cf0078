"""Load a kernel from a shared object and call it with tensors and sizes.

In: a library built by cpp_build and the name of a function `int NAME(void **buffers, const int64_t *sizes)`. Out: a
callable that takes tensors, then integers (or floats, where the kernel has it so), and returns None. Two doors: the C
type of launch.c (0.1 µs for three tensors), and ctypes where that extension was not built.

The kernel sees bare addresses: whoever calls it has checked dtype, shape, strides and device.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minicompile.errors import KernelError
from minicompile.torch_compat import can_read_tensors

try:
    from minicompile.runtime import _launch as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]

__all__ = ["CtypesKernel", "KernelError", "load_kernel", "native_launcher"]


def native_launcher() -> bool:
    """Whether kernels are launched through the C extension."""
    return _native is not None


def load_kernel(path: Path, symbol: str, n_tensors: int, n_ints: int) -> Callable[..., None]:
    """The function `symbol` of the library `path`, as a callable of n_tensors tensors and then n_ints integers.

    Calling it raises KernelError(code, symbol) when the kernel returns a code other than 0, and TypeError for a wrong
    number of arguments. Here: OSError when the library can't be loaded, AttributeError when it has no such symbol.
    """
    library = ctypes.CDLL(str(path))  # RTLD_LOCAL: kernels of different graphs may have the same names
    function = getattr(library, symbol)
    if _native is None:
        return CtypesKernel(function, n_tensors, n_ints, symbol)
    can_read_tensors(_native)  # else it asks `data_ptr()`
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return _native.Kernel(address, n_tensors, n_ints, symbol, KernelError, library)


def as_int64(number: int | float) -> int:
    """A kernel's number as it is passed: an int, or the bits of a double."""
    return struct.unpack("q", struct.pack("d", number))[0] if isinstance(number, float) else number


class CtypesKernel:
    """The same callable in Python. ctypes releases the interpreter's lock around the call, as launch.c does."""

    __slots__ = ("_function", "_buffers", "_sizes", "n_tensors", "n_ints", "name")

    def __init__(self, function: Any, n_tensors: int, n_ints: int, name: str):
        self._buffers = ctypes.c_void_p * n_tensors
        self._sizes = ctypes.c_int64 * n_ints
        self._function = function
        self.n_tensors = n_tensors
        self.n_ints = n_ints
        self.name = name

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {self.n_tensors} tensors, {self.n_ints} integers>"

    def __call__(self, *args: Any) -> None:
        n = self.n_tensors
        if len(args) != n + self.n_ints:
            raise TypeError(
                f"kernel {self.name} takes {n} tensors and {self.n_ints} integers, by position; "
                f"{len(args)} arguments given"
            )
        buffers = self._buffers(*[tensor.data_ptr() for tensor in args[:n]])
        code = self._function(buffers, self._sizes(*map(as_int64, args[n:])))
        if code != 0:
            raise KernelError(code, self.name)
