"""Many programs in one C++ translation unit: the compiler's start is what a small program costs most.

In: IR graphs. Out: their compiled graphs, once `build` has run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from minicompile.codegen import batches, compile_ir, cpp_build
from minicompile.codegen.compiled import CompiledGraph
from minicompile.codegen.cpp import print_cpp, translation_unit
from minicompile.codegen.kernel_ir import Kernel
from minicompile.ir.graph import Graph
from minicompile.runtime.compiler import compiler
from minicompile.runtime.cpp_build import libraries_of, run_compiler
from minicompile.runtime.launch import load_kernel


class Slot:
    """A kernel that is not built yet."""

    call: Callable[..., None]

    def __call__(self, *args: Any) -> None:
        self.call(*args)


def _renamed(kernel: Kernel, prefix: str) -> Kernel:
    """The kernel by a name that no other graph's has, and the text that does the work of a horizontal batch as well."""
    if isinstance(kernel, batches.Batch):
        kernel = replace(kernel, text=replace(kernel.text, name=prefix + kernel.text.name))
    return replace(kernel, name=prefix + kernel.name)


class Batch:
    """Graphs whose kernels are built together, with little optimisation but with the loops vectorised."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.slots: list[Slot] = []

    def add(self, graph: Graph) -> CompiledGraph:
        """Everything but the native build; half types are rounded as in eager."""
        with mock.patch.object(cpp_build, "build", self._defer):
            return compile_ir(graph, backend="cpp", options={"exact_rounding": True})

    def _defer(self, kernels: Sequence[Kernel], *_: Any) -> tuple[str, list[str], list[Any]]:
        first = len(self.kernels)
        self.kernels += [_renamed(kernel, f"k{first + i}_") for i, kernel in enumerate(kernels)]
        slots = [Slot() for _ in kernels]
        self.slots += slots
        return "", ["" for _ in kernels], slots

    def build(self) -> None:
        if not self.kernels:
            return
        folder = Path(tempfile.mkdtemp(prefix="minicompile-fuzz-"))
        source, library = folder / "batch.cpp", folder / "batch.so"
        text = translation_unit(print_cpp(kernel) for kernel in self.kernels)
        source.write_text(text)
        found = compiler()
        assert found is not None
        flags = ["-O1" if flag == "-O3" else flag for flag in found.flags()]
        files = [str(source), "-x", "none", "-Wl,--as-needed", *libraries_of(text), "-o", str(library)]
        run_compiler([*found.command, *flags, *files], source)
        for kernel, slot in zip(self.kernels, self.slots, strict=True):
            slot.call = load_kernel(library, kernel.name, len(kernel.buffers), len(kernel.symbols))
        source.unlink()
        library.unlink()  # it stays loaded
        folder.rmdir()
