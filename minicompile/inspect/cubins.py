"""The machine code that a GPU's kernels of a graph would be, made where no GPU is.

In: an optimised Graph, on whatever device it was traced, and an architecture (90: Hopper). Out: a `Cubin` for each
kernel that `compile_ir` would launch for it. Kernels know nothing of devices, so a graph traced on the CPU will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..codegen.plan import plan_kernels
from ..codegen.triton import print_triton
from ..codegen.triton_build import load_functions
from ..codegen.triton_launch import Launcher
from ..codegen.twins import twins
from ..ir.graph import Graph
from ..lowering import lower
from ..passes import run


@dataclass(frozen=True)
class Cubin:
    """One compiled kernel: its Triton text, its ELF file, and what a program of it takes."""

    name: str
    source: str
    code: bytes
    warps: int
    shared: int

    def __str__(self) -> str:
        return f"{self.name}: {len(self.code)} bytes, {self.warps} warps, {self.shared} bytes of shared memory"


def cubins(graph: Graph, arch: int = 90, tune: bool = False) -> list[Cubin]:
    """See the module's docstring. `tune`: matrix products become kernels where they can, as mode="max-autotune" would
    try them."""
    kernels = [low.kernel for low in plan_kernels(graph, "triton", {"tune": tune}).lowered.values()]
    texts = [print_triton(kernel) for kernel in twins(kernels).distinct]
    result = []
    for text, function in zip(texts, load_functions(texts), strict=True):
        launcher = Launcher(text, function)
        compiled = launcher.cross_compile(arch, divisible=(False,) * len(launcher.symbols))
        metadata = compiled.metadata
        code = bytes(compiled.asm["cubin"])
        result.append(Cubin(text.kernel.name, text.source, code, metadata.num_warps, metadata.shared))
    return result


def cubins_of_call(
    fn: Callable[..., Any], args: tuple[Any, ...], arch: int = 90, tune: bool = False
) -> list[list[Cubin]]:
    """The same for each graph that a call of a function is captured as; the call itself runs in eager.

    Raises BackendError for a graph that cannot be lowered, or whose kernels do not compile for the architecture.
    """
    import minicompile

    graphs: list[list[Cubin]] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        graphs.append(cubins(run(lower(gm, example_inputs)), arch, tune))
        return gm

    with minicompile.config.patch(strict=True):
        minicompile.compile(fn, backend=backend)(*args)
    return graphs


def write(graphs: list[list[Cubin]], folder: Path) -> None:
    """`graph_0/kernel_0_add.cubin`, and the text beside it."""
    for number, found in enumerate(graphs):
        place = folder / f"graph_{number}"
        place.mkdir(parents=True, exist_ok=True)
        for cubin in found:
            (place / f"{cubin.name}.cubin").write_bytes(cubin.code)
            (place / f"{cubin.name}.py").write_text(cubin.source + "\n")
