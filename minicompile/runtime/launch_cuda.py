"""Launch a loaded CUDA kernel with tensors.

In: a kernel's function handle, its grid, threads and shared memory, and how many tensors a call has. Out: a callable
that takes the tensors, puts the kernel on the current stream and returns None. Two doors: the C type of launch_cuda.c,
and ctypes where that extension was not built.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_compat import can_read_tensors

try:
    from minicompile.runtime import _launch_cuda as _native
except ImportError:  # not built: no C compiler when the package was installed
    _native = None  # type: ignore[assignment]


INVALID_CONTEXT = 201


@dataclass(frozen=True)
class Launch:
    """What launching one loaded kernel takes.

    Attributes:
        function: CUfunction, loaded on `device`.
        grid, threads, shared: programs; threads of each, and bytes of dynamic shared memory.
        tensors: how many addresses come first among the parameters.
        ints: what follows them, each as an int64.
        hidden: null addresses that follow those.
        aligned: whether the kernel needs addresses divisible by 16.
        elsewhere: called instead, with the same tensors, when one is not, or when another device is current.
    """

    name: str
    function: int
    grid: int
    threads: int
    shared: int
    tensors: int
    ints: tuple[int, ...]
    hidden: int
    device: int
    aligned: bool
    elsewhere: Callable[..., None]


def address_comparison() -> Callable[[list[Any], list[int | None], list[int]], bool]:
    """A function of tensors, addresses and indices: whether the tensors at these indices lie at these addresses."""
    if _native is None:
        return _same_addresses
    can_read_tensors(_native)
    return _native.same_addresses


def _same_addresses(tensors: list[Any], addresses: list[int | None], where: list[int]) -> bool:
    return all(tensors[i].data_ptr() == addresses[i] for i in where)


def cuda_kernel(launch: Launch) -> Callable[..., None]:
    """A callable of the tensors. Raises OSError where there is no CUDA driver."""
    if _native is None:
        return CtypesKernel(launch)
    can_read_tensors(_native)  # else it asks `data_ptr()`
    return _native.CudaKernel(
        launch.function, launch.grid, launch.threads, launch.shared, launch.tensors, launch.ints, launch.hidden,
        launch.device, launch.aligned, launch.name, launch.elsewhere, torch._C._cuda_getCurrentRawStream,
    )


class CtypesKernel:
    """The same in Python, and several times slower."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.driver = ctypes.CDLL("libcuda.so.1")

    def __call__(self, *tensors: torch.Tensor) -> None:
        launch = self.launch
        addresses = [tensor.data_ptr() for tensor in tensors]
        misaligned = launch.aligned and any(address % 16 for address in addresses)
        if misaligned or torch._C._cuda_getDevice() != launch.device:
            launch.elsewhere(*tensors)
            return
        values: list[Any] = [*map(ctypes.c_uint64, addresses), *map(ctypes.c_int64, launch.ints)]
        values += [ctypes.c_uint64(0) for _ in range(launch.hidden)]
        params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(launch.device))
        shape = (launch.grid, 1, 1, launch.threads, 1, 1, launch.shared)
        code = self.driver.cuLaunchKernel(ctypes.c_void_p(launch.function), *shape, stream, params, None)
        if code == INVALID_CONTEXT:
            self._enter_context()
            code = self.driver.cuLaunchKernel(ctypes.c_void_p(launch.function), *shape, stream, params, None)
        if code != 0:
            raise RuntimeError(f"CUDA error {code} when kernel {launch.name} was launched")

    def _enter_context(self) -> None:
        """In a thread that has done nothing with CUDA yet (cuda_driver.h)."""
        context = ctypes.c_void_p()
        self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.launch.device)
        self.driver.cuCtxSetCurrent(context)
        self.driver.cuDevicePrimaryCtxRelease_v2(self.launch.device)
