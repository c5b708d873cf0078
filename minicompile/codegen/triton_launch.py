"""One Triton kernel, compiled when it is first needed and launched with what was compiled.

In: a kernel's text and its `@triton.jit` function. Out: `Launcher`, a callable of the tensors and then the sizes.

Triton's own dispatch (`function[grid](…)`: 11 µs a call) is not used: we know the types, so we compile for them, once
for addresses that are divisible by 16 and once for others, and likewise for sizes; the driver is called from C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from ..ir.symbols import is_float_symbol
from ..runtime.launch import as_int64
from ..runtime.launch_cuda import Launch, cuda_kernel
from .triton import TritonText
from .triton_compat import compile_for, load
from .triton_text import POINTERS

REMEMBERED = 256
"""Combinations of sizes for which a launch is remembered."""


class Launcher:
    """Calls a kernel with tensors and then sizes, on the tensors' device and its current stream."""

    def __init__(self, text: TritonText, function: Any) -> None:
        self.text, self.function = text, function
        self.tensors, self.symbols = len(text.kernel.buffers), text.kernel.symbols
        self.has_floats = any(map(is_float_symbol, self.symbols))
        self.compiled: dict[tuple[Any, ...], Any] = {}  # (architecture, aligned, divisible sizes) → compiled
        self.known: dict[tuple[Any, ...], Callable[..., None]] = {}  # (device, aligned, *sizes) → launch
        self.lock = threading.Lock()

    @property
    def is_static(self) -> bool:
        """Whether no size is symbolic, and there is something to do."""
        return not self.symbols and self.text.shape.programs({}) > 0

    def __call__(self, *args: Any) -> None:
        device = args[0].device
        if self.has_floats:
            args = (*args[: self.tensors], *map(as_int64, args[self.tensors :]))
        if device.type != "cuda":
            self._interpret(args)
            return
        aligned = all(tensor.data_ptr() % 16 == 0 for tensor in args[: self.tensors])
        sizes = args[self.tensors :]
        launch = self.known.get((device.index, aligned, *sizes)) or self.loaded(device, aligned, sizes)
        with torch.cuda.device(device):
            launch(*args[: self.tensors])

    def _interpret(self, args: tuple[Any, ...]) -> None:
        from .triton_interpreter import prepare_interpreter  # imports NumPy, which nothing else of ours needs

        prepare_interpreter()
        grid = self.grid(args[self.tensors :])
        if grid > 0:
            self.function[(grid,)](*args, **self.text.shape.blocks)

    def grid(self, sizes: tuple[int, ...]) -> int:
        """How many programs."""
        return self.text.shape.programs(dict(zip(self.symbols, sizes, strict=True)))

    def options(self) -> dict[str, Any]:
        """Options of Triton. Only kernels that check an index are compiled with assertions. Subnormal numbers stay what
        they are, as in eager: Triton would link libdevice's functions in the variants that take them for zeros."""
        options: dict[str, Any] = {"num_warps": self.text.shape.num_warps}
        options.update(enable_fp_fusion=False, enable_reflect_ftz=False)
        if self.text.shape.stages is not None:
            options["num_stages"] = self.text.shape.stages
        if self.text.kernel.may_fail:
            options.update(debug=True, sanitize_overflow=False)
        return options

    def cross_compile(self, arch: int, aligned: bool = True, divisible: tuple[bool, ...] = ()) -> Any:
        """Triton's compiled kernel for an architecture; needs no GPU."""
        buffers, blocks = self.text.kernel.buffers, self.text.shape.blocks
        signature = {buffer.name: POINTERS[buffer.dtype] for buffer in buffers}
        signature.update(dict.fromkeys(self.symbols, "i64"))
        signature.update(dict.fromkeys(blocks, "constexpr"))
        positions = tuple(range(self.tensors)) if aligned else ()
        positions += tuple(self.tensors + i for i, is_divisible in enumerate(divisible) if is_divisible)
        return compile_for(self.function, signature, blocks, positions, self.options(), arch)

    def compile(self, device: torch.device, aligned: bool = True, sizes: tuple[int, ...] = ()) -> Any:
        """Triton's compiled kernel; from its cache on disk where that has it."""
        major, minor = torch.cuda.get_device_capability(device)
        pairs = zip(self.symbols, sizes, strict=True)
        divisible = tuple(size % 16 == 0 and not is_float_symbol(name) for name, size in pairs)
        key = (10 * major + minor, aligned, divisible)
        if key not in self.compiled:
            self.compiled[key] = self.cross_compile(*key)
        return self.compiled[key]

    def loaded(self, device: torch.device, aligned: bool = True, sizes: tuple[int, ...] = ()) -> Callable[..., None]:
        """The launch for a device and sizes."""
        index = torch.cuda.current_device() if device.index is None else device.index
        grid = self.grid(sizes)
        if grid == 0:
            return _nothing
        with self.lock, torch.cuda.device(index):
            handle = load(self.compile(device, aligned, sizes), index, self.tensors + len(sizes))
        shape = (grid, handle.threads, handle.shared, self.tensors, tuple(sizes), handle.hidden)
        launch = cuda_kernel(Launch(self.text.kernel.name, handle.function, *shape, index, aligned, self))
        if len(self.known) < REMEMBERED:
            self.known[index, aligned, *sizes] = launch
        return launch


def _nothing(*tensors: torch.Tensor) -> None:
    """The launch of a kernel over no elements."""
