"""`python -m benchmarks.products`: matrix products of float32 on the CPU, ours beside eager's, which are MKL's.

In: sizes, with a weight as it lies in a Linear and a bias. Out: a table of medians with spread and of ratios, of each
product alone. codegen/cpp_product_choice.py has its thresholds from it.
"""

from __future__ import annotations

import argparse
import sys
from unittest import mock

import torch
from torch.nn import functional as F

import minicompile
from minicompile.codegen import cpp_product_choice
from minicompile.inspect.timing import Timing, interleaved

from .pinned import pinned
from .report import machine

SIZES = (
    (8, 768, 768), (16, 768, 768), (64, 768, 768), (256, 768, 768), (512, 768, 768), (256, 3072, 768), (512, 3072, 768),
    (256, 768, 3072), (512, 768, 3072), (256, 50257, 768), (64, 64, 1024), (64, 1024, 64), (128, 256, 128),
    (256, 256, 256), (1024, 1024, 1024), (4096, 4096, 32),
)  # fmt: skip
"""Rows, columns, terms."""


def measured(size: tuple[int, int, int], rounds: int) -> dict[str, Timing]:
    """Eager's product and ours, whatever the processor and the size."""
    m, n, k = size
    x, weight, bias = torch.randn(m, k), torch.randn(n, k), torch.randn(n)
    compiled = minicompile.compile(lambda x, weight, bias: F.linear(x, weight, bias), fullgraph=True)
    with (
        torch.no_grad(), minicompile.config.patch(own_products=True, entry_cache=False),
        mock.patch.multiple(cpp_product_choice, WORK=0, FEWEST=1),
    ):  # fmt: skip
        torch.testing.assert_close(compiled(x, weight, bias), F.linear(x, weight, bias), rtol=1e-4, atol=1e-3)
        calls = {"eager": lambda: F.linear(x, weight, bias), "minicompile": lambda: compiled(x, weight, bias)}
        with pinned():
            return interleaved(calls, rounds=rounds)


def main() -> int:
    """Returns the exit status."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each takes its turn")
    args = parser.parse_args()
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    table = Table(title=f"products: {about}", title_justify="left")
    for head in ("rows × columns × terms", "eager", "minicompile", "of eager's time", "Gflop/s"):
        table.add_column(head, justify="right")
    for size in SIZES:
        m, n, k = size
        times = measured(size, args.rounds)
        eager, ours = times["eager"], times["minicompile"]
        ratio, speed = f"{eager.times_as_fast_as(ours):.2f}", f"{2e-9 * m * n * k / ours.median:.0f}"
        table.add_row(" × ".join(map(str, size)), str(eager), str(ours), ratio, speed)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
