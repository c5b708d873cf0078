"""Consecutive kernels as one native call.

In: `Run`, which says what kernels there are and where each of their buffers lies: in a tensor that a call is given, so
many bytes from where that starts; and the kernels. Out: a callable of the tensors. Two doors: the C type of run.h, and
`StepByStep`, which calls kernel after kernel: where only one after the other is right (a GPU's kernels on addresses
that they were not compiled for), or is to be seen (by a profiler).

A step costs what its kernel costs, and a few additions. As lines of Python, each kernel costs its call, and each of its
results a tensor that is made and dies: together 1 µs on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from . import launch, launch_cuda

Place = tuple[int, int]
"""The number of a tensor among those that a call is given, and bytes from where it starts."""


@dataclass(frozen=True)
class Run:
    """Consecutive kernels that one native call starts.

    Attributes:
        kernels: their names, in order; a name may stand here more than once.
        places: for each kernel, the places of its buffers.
        tensors: how many a call is given.
    """

    kernels: tuple[str, ...]
    places: tuple[tuple[Place, ...], ...]
    tensors: int


def run_type(kernel: Any) -> type[Any] | None:
    """The native type for runs of such kernels; None for a kernel that is called by itself: it is not launched from C,
    or by an extension that was built before there were runs, or takes more than tensors."""
    if launch._native is not None and isinstance(kernel, launch._native.Kernel):
        return getattr(launch._native, "Run", None) if kernel.n_ints == 0 else None
    if launch_cuda._native is not None and isinstance(kernel, launch_cuda._native.CudaKernel):
        return getattr(launch_cuda._native, "Run", None)
    return None


def load_run(run: Run, kernels: Mapping[str, Any]) -> Callable[..., None]:
    """A callable of the tensors. `kernels`: name → kernel; it is read again by calls that go step by step."""
    steps = tuple((kernels[name], places) for name, places in zip(run.kernels, run.places, strict=True))
    native, otherwise = run_type(steps[0][0]), StepByStep(run, kernels)
    if native is None:  # an entry from the disk, made where the C extensions are
        return otherwise
    return native(steps, run.tensors, otherwise)


class StepByStep:
    """The same as single calls of the kernels that `kernels` names at that time. They see bare addresses: a buffer
    within a tensor is just the bytes from there on."""

    def __init__(self, run: Run, kernels: Mapping[str, Any]) -> None:
        self.run = run
        self.kernels = kernels

    def __call__(self, *tensors: torch.Tensor) -> None:
        for name, places in zip(self.run.kernels, self.run.places, strict=True):
            self.kernels[name](*[_from(tensors[number], offset) for number, offset in places])


def _from(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """Only arenas, which are bytes in one dimension, have buffers elsewhere than at their start."""
    return tensor[offset:] if offset else tensor
