"""mode="max-autotune": choose a kernel's blocks and warps by timing them on the device.

In: a `Launcher` with the shape that the heuristics chose. Out: one with the fastest of the `alternatives`.

Kernels are timed on memory of their own, filled with random numbers: a kernel writes nothing that it also reads, so
every run does the same work. The winner is kept on disk, by the kernel's text and the device's name. Kernels that read
at computed places, or have symbolic sizes, keep the heuristics' shape: random indices would be wrong, sizes unknown.
Matrix products were chosen before (matmul_choice.py)."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from ..runtime import cache
from .kernel_ir import Affine, Batch, Buffer, Kernel
from .matmul_kernel import Product
from .triton import TritonText, print_triton
from .triton_launch import Launcher
from .triton_shape import alternatives

ROUNDS = 15
"""Timed runs of each alternative; the median counts."""


def tuned(launcher: Launcher, device: torch.device) -> Launcher:
    """See the module's docstring."""
    kernel = launcher.text.kernel
    reads_anywhere = any(value.op == "load" and value.args for value in kernel.body)
    if not launcher.is_static or isinstance(kernel, (Batch, Product)) or reads_anywhere:
        return launcher
    texts = [print_triton(kernel, shape) for shape in alternatives(kernel)]
    key = _key(texts, device)
    known = cache.get(key)
    best = int(known) if known is not None else fastest(texts, device)
    if known is None:
        cache.put(key, str(best).encode())
    return launcher if best == 0 else launcher_of(texts[best])


def _key(texts: Sequence[TritonText], device: torch.device) -> str:
    import triton

    said = [torch.cuda.get_device_name(device), triton.__version__]
    said += [f"{text.source} {text.shape.blocks} {text.shape.num_warps}" for text in texts]
    return "tune-" + hashlib.sha256("\n".join(said).encode()).hexdigest()


def launcher_of(text: TritonText) -> Launcher:
    """The kernel, to be compiled."""
    from .triton_build import load_functions

    (function,) = load_functions([text])
    return Launcher(text, function)


def fastest(texts: Sequence[TritonText], device: torch.device) -> int:
    """The number of the fastest text."""
    times = measured(texts, device)
    return min(range(len(times)), key=times.__getitem__)


def measured(texts: Sequence[TritonText], device: torch.device) -> list[float]:
    """Median milliseconds of each text's kernel."""
    launchers = [launcher_of(text) for text in texts]
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda launcher: launcher.compile(device), launchers))
    calls = [launcher.loaded(device) for launcher in launchers]
    with torch.cuda.device(device):
        tensors = [_filled(texts[0].kernel, buffer, device) for buffer in texts[0].kernel.buffers]
        return device_times([partial(call, *tensors) for call in calls], device)


def device_times(calls: Sequence[Callable[[], None]], device: torch.device) -> list[float]:
    """Median milliseconds of each, taking turns, with a cold L2 cache."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device=device)
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, found in zip(calls, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            start.record()
            call()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end))
    return [statistics.median(found) for found in times]


def _filled(kernel: Kernel, buffer: Buffer, device: torch.device) -> torch.Tensor:
    """Memory for the buffer, as far as the kernel reaches."""
    sizes = {axis.name: axis.size for axis in kernel.axes}
    reach = 1
    for value in kernel.body:
        index = value.attrs.get("index")
        if isinstance(index, Affine) and value.attrs.get("buffer") is buffer:
            reach = max(reach, 1 + index.offset + sum(c * (sizes[name] - 1) for name, c in index.terms if c > 0))
    if buffer.dtype.is_floating_point:
        return torch.randn(reach, device=device).to(buffer.dtype)
    return torch.randint(0, 2, (reach,), device=device).to(buffer.dtype)
