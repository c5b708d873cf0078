"""Scans in C++: several rows side by side, so that the processor does not wait for one row's chain of additions.

In: a `Kernel` that scans its rows (cumsum, cumprod). Out: the text of its C++ function.

Each element of a running sum waits four cycles for the one before it; eight rows at a time fill them. Every row is
still summed in order, by the carry that eager uses. Rows that are walked more than once, or that need values of their
own before the walk, go one by one as in any row kernel."""

from __future__ import annotations

from ..ir.symbols import dim_text
from .cpp_rows import RowPrinter
from .kernel_ir import Kernel, Value
from .stages import LEAVES

TOGETHER = 8
"""Rows walked side by side; their carries stay in registers."""


def has_scan(kernel: Kernel) -> bool:
    return any(value.op == "scan" for value in kernel.body)


class ScanPrinter(RowPrinter):
    """See the module's docstring."""

    stores_past_caches = False
    joins_loops = False

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.side_by_side = False

    def body(self) -> None:
        if not self._is_one_walk() or self._is_small():
            return super().body()
        *others, rows = self.outer
        with self._threads("parallel for", len(self.outer)):
            for axis in others:
                self.out.open(self._for(axis))
            size, first = dim_text(rows.size, "cpp"), f"{rows.name}_first"
            self.out.open(f"for (int64_t {first} = 0; {first} < {size}; {first} += {TOGETHER})")
            self._rows(0)
            self.out.open(f"if ({first} + {TOGETHER} <= {size})")
            self._walk_together(rows.name)
            self.out.close()
            self.out.open(f"else for (int64_t {rows.name} = {first}; {rows.name} < {size}; ++{rows.name})")
            self._loop(0, self.stages.loops[0])
            self.out.close()
            for _ in self.outer:
                self.out.close()
        return None

    def _is_one_walk(self) -> bool:
        """Whether rows need no more than one loop over their elements, with nothing but constants outside of it."""
        plan, loops = self.stages, self.stages.loops
        return (
            bool(self.outer)
            and len(self.inner) == 1
            and len(loops) == 1
            and not plan.kept
            and not any(value.op == "reduce" for value in loops[0])
            and all(value.op in LEAVES for values in plan.rows for value in values)
        )

    def _walk_together(self, row: str) -> None:
        loop = self.stages.loops[0]
        for value in loop:
            if value.op == "scan":
                declared, _, start = self._declare_carry(value).rstrip(";").partition(" = ")
                self.out.add(f"{declared}[{TOGETHER}];", f"for (int lane = 0; lane < {TOGETHER}; ++lane) "
                             f"carry_{self.names[value]}[lane] = {start};")
        self.out.open(self._for(self.inner[0]))
        self.out.add(f"#pragma GCC unroll {TOGETHER}")
        self.out.open(f"for (int lane = 0; lane < {TOGETHER}; ++lane)")
        self.out.add(f"const int64_t {row} = {row}_first + lane;")
        self.side_by_side = True
        self._block(loop)
        self.side_by_side = False
        self.out.close()
        self.out.close()

    def carry(self, value: Value) -> str:
        return super().carry(value) + ("[lane]" if self.side_by_side else "")
