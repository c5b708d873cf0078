"""Pieces of a row in C++: one walk over the rows, and in each a loop for every piece.

In: kernels over parts of the same rows (pieces.py). Out: the text of one function.

What several pieces read, and the line that one piece ends in and the next begins in, comes from memory once. A rotary
embedding, whose halves each read the other, takes 0.74 of the time that two walks take (two threads)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .cpp_rows import RowPrinter
from .kernel_ir import Kernel, Value


def one_walk(printers: Sequence[RowPrinter]) -> bool:
    """Whether these pieces of rows can share a walk: there are rows, and none needs a kernel that walks otherwise."""
    return all(type(printer) is RowPrinter and printer.outer and not printer.keeps_on_heap for printer in printers)


class PiecesPrinter(RowPrinter):
    """Prints kernels that differ in their innermost axis as one function, under the first one's name."""

    def __init__(self, printers: Sequence[RowPrinter]) -> None:
        self.printers = printers
        super().__init__(_joined([printer.kernel for printer in printers]))
        for printer in printers:
            printer.out = self.out

    def _stored_past_caches(self) -> frozenset[Value]:
        return frozenset().union(*(printer.streamed for printer in self.printers))

    def print_row(self) -> None:
        for printer in self.printers:
            self.out.open("")
            printer.print_row()
            self.out.close()


def _joined(kernels: Sequence[Kernel]) -> Kernel:
    """The first kernel with a row as long as all together, and everything in its body: for what is asked of the whole
    (comments, work, whether it may fail)."""
    inner = [kernel.axes[-1] for kernel in kernels]
    whole = replace(inner[0], size=sum(axis.size for axis in inner), hint=sum(axis.hint for axis in inner))
    body = tuple(value for kernel in kernels for value in kernel.body)
    return replace(kernels[0], axes=(*kernels[0].axes[:-1], whole), body=body)
