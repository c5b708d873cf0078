"""Which matrix products on the CPU are kernels of ours.

In: a product, this processor, `config.own_products`. Out: whether it becomes a kernel, and why.

On AMD's processors with AVX2 loops of ours are faster than MKL's (two threads of a Zen 3, in turns, of MKL's time, rows
× columns × terms: 512 × 3072 × 768 0.92, 256 × 768 × 3072 0.85, 64 × 768 × 768 0.78, 256 × 50257 × 768 0.53; `python -m
benchmarks.products` measures it). On Intel's with AVX-512 they are not (0.99 to 1.3 of whole models' time), so that
products stay calls there. Where the product is ours, the pointwise kernel that reads it is its epilogue: the result is
not stored and loaded in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..config import config
from ..ir.graph import Node
from ..ir.symbols import hint
from ..runtime.cpu import simd_name, vendor
from .cpp_products import is_printable
from .matmul_choice import Candidate
from .matmul_kernel import Product
from .prepare import Views

FEWEST = 8
"""Rows and columns from which a product is ours: fewer do not fill the registers of a tile."""

WORK = 1 << 25
"""Multiplications from which the copies of the factors are a small part of the work."""

LONG = 512
"""Terms from which an eighth of that will do: finished blocks are few. Measured, of MKL's time: 16 × 768 × 768 0.84,
64 × 1024 × 64 (terms last) 1.18, 256 × 256 × 256 1.08, 1024 × 1024 × 1024 0.87."""


def has_own_products() -> bool:
    """Whether products may be kernels at all."""
    if config.own_products is not None:
        return bool(config.own_products)
    return simd_name() == "avx2" and vendor() == "AuthenticAMD"


class Measured:
    """The CPU's policy: where loops of ours were measured to be faster, they are taken, and nothing is timed."""

    joins_makers = False  # a panel of the left factor is copied once, but its maker has a store of its own

    takes_symbols = True

    def computes(self, node: Node, hints: Mapping[str, int]) -> bool:
        left, right = (arg.tensor for arg in node.args[-2:])
        if node.tensor.device.type != "cpu" or node.tensor.dtype != torch.float32 or node.tensor.rank != 2:
            return False
        (rows, k), n = left.shape, right.shape[1]
        m = hint(rows, hints)
        return min(m, n) >= FEWEST and m * n * k >= (WORK // 8 if k >= LONG else WORK)

    def configs(self, kernel: Product) -> Sequence[None]:
        return [None] if is_printable(kernel) else []

    def fastest(self, candidates: Sequence[Candidate], views: Views) -> tuple[int, str]:
        return 1, "tiles in registers, faster than MKL's on this processor"
