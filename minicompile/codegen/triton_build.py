"""Make Triton kernels callable: on a device, in Triton's interpreter, or as a cubin for a device that is not there.

In: kernels. Out: for `build` (source, each kernel's text, a launcher for each); `compile_to_cubin`; `interpret`.

The source is executed as a module of its own and registered in linecache, where Triton looks for a function's text.
`enable_fp_fusion` is off: eager has no fused multiply-add, and comparing against it should not need a wider
tolerance."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch

from ..ir.symbols import evaluate
from .kernel_ir import Kernel
from .triton import HEAD, TritonText, print_triton
from .triton_compat import INTERPRETED, compile_for, launch
from .triton_text import POINTERS

_serial = count()

REMEMBERED = 256
"""Combinations of sizes for which a launch is remembered."""


def build(
    kernels: Sequence[Kernel], seconds: dict[str, float]
) -> tuple[str, list[str], list[Callable[..., None]]]:
    """See the module's docstring. Kernels are compiled by Triton when first launched."""
    texts = [print_triton(kernel) for kernel in kernels]
    source = module_source(texts)
    functions = load_functions(texts)
    return source, [text.source for text in texts], [
        Launcher(text, function) for text, function in zip(texts, functions, strict=True)
    ]


def module_source(texts: Sequence[TritonText]) -> str:
    return HEAD + "\n\n" + "\n\n\n".join(text.source for text in texts) + "\n"


def load_functions(texts: Sequence[TritonText]) -> list[Any]:
    """The `@triton.jit` functions."""
    source = module_source(texts)
    filename = f"<minicompile triton {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "minicompile.codegen.generated"}
    exec(compile(source, filename, "exec"), namespace)
    return [namespace[text.kernel.name] for text in texts]


class Launcher:
    """Calls a kernel with tensors and then sizes, on the tensors' device and its current stream.

    Triton specialises on sizes and on the alignment of pointers. The usual case, all pointers aligned, is remembered
    per device and sizes, and launched directly; all else goes through Triton's own dispatch.
    """

    def __init__(self, text: TritonText, function: Any) -> None:
        self.text, self.function = text, function
        self.tensors, self.symbols = len(text.kernel.buffers), text.kernel.symbols
        self.rows = text.kernel.size("parallel")
        self.options = {**text.blocks, "num_warps": text.num_warps, "enable_fp_fusion": False}
        self.blocks = tuple(text.blocks.values())
        self.known: dict[tuple[Any, ...], tuple[Any, int]] = {}

    def __call__(self, *args: Any) -> None:
        device = args[0].device.index
        pointers = 0
        for tensor in args[: self.tensors]:
            pointers |= tensor.data_ptr()
        key = (device, *args[self.tensors :])
        ready = self.known.get(key) if pointers & 15 == 0 else None
        if ready is None or torch._C._cuda_getDevice() != device:
            self._dispatch(key, pointers & 15 == 0, args)
        else:
            kernel, grid = ready
            launch(kernel, grid, torch._C._cuda_getCurrentRawStream(device), (*args, *self.blocks))

    def _dispatch(self, key: tuple[Any, ...], aligned: bool, args: tuple[Any, ...]) -> None:
        """Through Triton, which compiles where need be; remembers the kernel for the next time."""
        grid = self.grid(args)
        if grid == 0:
            return
        device = args[0].device
        if device.type != "cuda":
            self.function[(grid,)](*args, **self.options)
            return
        with torch.cuda.device(device):
            kernel = self.function[(grid,)](*args, **self.options)
        if aligned and len(self.known) < REMEMBERED:
            self.known[key] = kernel, grid

    def grid(self, args: Sequence[Any]) -> int:
        """Programs: the rows over the rows a program takes."""
        rows = self.rows
        if not isinstance(rows, int):
            rows = evaluate(rows, dict(zip(self.symbols, args[self.tensors :], strict=True)))
        return -(-rows // self.text.rows)


def compile_to_cubin(kernel: Kernel, arch: int = 90) -> bytes:
    """The kernel's machine code for an NVIDIA architecture; needs no GPU."""
    text = print_triton(kernel)
    (function,) = load_functions([text])
    signature = {buffer.name: POINTERS[buffer.dtype] for buffer in kernel.buffers}
    signature.update(dict.fromkeys(kernel.symbols, "i64"))
    signature.update(dict.fromkeys(text.blocks, "constexpr"))
    options = {"num_warps": text.num_warps, "enable_fp_fusion": False}
    aligned = tuple(range(len(kernel.buffers)))
    return bytes(compile_for(function, signature, text.blocks, aligned, arch, options).asm["cubin"])


def interpret(kernel: Kernel, *args: Any) -> None:
    """Run the kernel on CPU tensors in Triton's interpreter. Raises RuntimeError unless TRITON_INTERPRET=1 was set
    before triton was imported."""
    if not INTERPRETED:
        raise RuntimeError("set TRITON_INTERPRET=1 before triton is imported")
    text = print_triton(kernel)
    (function,) = load_functions([text])
    Launcher(text, function)(*args)
