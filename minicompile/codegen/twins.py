"""Kernels that do the same to other tensors are printed and built once: the layers of a network are twelve of a kind.

In: the kernels of a graph. Out: the distinct ones, and for each kernel which of them does its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .batches import signature
from .kernel_ir import Batch, Kernel
from .matmul_kernel import Product


@dataclass(frozen=True)
class Twins:
    """Kernels that differ in names alone, each once.

    Attributes:
        distinct: the kernels to build.
        place: for each kernel, the number of the distinct one that does its work.
    """

    distinct: list[Kernel]
    place: list[int]

    def spread(self, items: Sequence[Any]) -> list[Any]:
        """One item for each kernel, from one for each distinct kernel."""
        return [items[number] for number in self.place]

    def noted(self, texts: Sequence[str], kernels: Sequence[Kernel], comment: str) -> list[str]:
        """The distinct kernels' texts, each with a comment line of the other kernels that it stands for."""
        others: list[list[str]] = [[] for _ in self.distinct]
        for kernel, number in zip(kernels, self.place, strict=True):
            if kernel is not self.distinct[number]:
                others[number].append(kernel.name)
        return [
            f"{comment} also {', '.join(names)}\n{text}" if names else text
            for text, names in zip(texts, others, strict=True)
        ]


def twins(kernels: Sequence[Kernel]) -> Twins:
    """See the module's docstring."""
    found: dict[Any, int] = {}
    distinct: list[Kernel] = []
    place: list[int] = []
    for kernel in kernels:
        number = found.setdefault(_key(kernel), len(distinct))
        if number == len(distinct):
            distinct.append(kernel)
        place.append(number)
    return Twins(distinct, place)


def _key(kernel: Kernel) -> Any:
    """Equal for kernels of the same text, names and the user's lines aside. A batch is its own only twin."""
    if isinstance(kernel, Batch):
        return kernel
    if isinstance(kernel, Product):
        tiles = ((tile.address, tuple(sorted(tile.digits.items()))) for tile in kernel.tiles())
        return signature(kernel), kernel.sizes, kernel.config, tuple(tiles)
    return signature(kernel), kernel.axes, tuple(buffer.numel for buffer in kernel.buffers)
