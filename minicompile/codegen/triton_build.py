"""Make Triton kernels callable: on a device, in Triton's interpreter, or as a cubin for a device that is not there.

In: kernels, and the device they are for. Out: for `build` (source, each kernel's text, a callable for each);
`compile_to_cubin`; `interpret`.

The source is executed as a module of its own and registered in linecache, where Triton looks for a function's text.
`enable_fp_fusion` is off: eager has no fused multiply-add, and comparing against it should not need a wider
tolerance."""

from __future__ import annotations

import linecache
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import torch

from ..timeline import record
from .kernel_ir import Kernel
from .triton import HEAD, TritonText, print_triton
from .triton_compat import INTERPRETED
from .triton_launch import Launcher
from .twins import twins

_serial = count()


def build(
    kernels: Sequence[Kernel], seconds: dict[str, float], device: torch.device | None = None, tune: bool = False
) -> tuple[str, list[str], list[Callable[..., None]]]:
    """See the module's docstring.

    Kernels without symbolic sizes are compiled here, all at once; others when first launched.

    Args:
        seconds: `seconds["native"]` gets Triton's time.
        tune: block sizes are chosen by timing them on the device.
    """
    start = time.perf_counter()
    same = twins(kernels)
    texts = [print_triton(kernel) for kernel in same.distinct]
    launchers = [Launcher(text, fn) for text, fn in zip(texts, load_functions(texts), strict=True)]
    calls: list[Callable[..., None]] = list(launchers)
    if device is not None and device.type == "cuda" and torch.cuda.is_available():
        if tune:
            from .triton_tune import tuned

            launchers = [tuned(launcher, device) for launcher in launchers]
            texts = [launcher.text for launcher in launchers]
        calls = _ready(launchers, device)
    span = record("native", start, time.perf_counter())
    seconds["native"] = seconds.get("native", 0.0) + span.end - span.start
    sources = same.noted([text.source for text in texts], kernels, "#")
    return module_source(sources), same.spread(sources), same.spread(calls)


def _ready(launchers: Sequence[Launcher], device: torch.device) -> list[Callable[..., None]]:
    """What to call: for a kernel of fixed sizes, the loaded kernel itself."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        for done in [pool.submit(launcher.compile, device) for launcher in launchers if launcher.is_static]:
            done.result()
    return [launcher.loaded(device) if launcher.is_static else launcher for launcher in launchers]


def module_source(sources: Sequence[str]) -> str:
    """The text of one module with all these functions, imports first."""
    return HEAD + "\n\n" + "\n\n\n".join(sources) + "\n"


def load_functions(texts: Sequence[TritonText]) -> list[Any]:
    """The `@triton.jit` functions."""
    source = module_source([text.source for text in texts])
    filename = f"<minicompile triton {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "minicompile.codegen.generated"}
    exec(compile(source, filename, "exec"), namespace)
    return [namespace[text.kernel.name] for text in texts]


def compile_to_cubin(kernel: Kernel, arch: int = 90) -> bytes:
    """The kernel's machine code for an NVIDIA architecture; needs no GPU."""
    text = print_triton(kernel)
    (function,) = load_functions([text])
    return bytes(Launcher(text, function).cross_compile(arch).asm["cubin"])


def interpret(kernel: Kernel, *args: Any) -> None:
    """Run the kernel on CPU tensors in Triton's interpreter. Raises RuntimeError unless TRITON_INTERPRET=1 was set
    before triton was imported."""
    if not INTERPRETED:
        raise RuntimeError("set TRITON_INTERPRET=1 before triton is imported")
    text = print_triton(kernel)
    (function,) = load_functions([text])
    Launcher(text, function)(*args)

