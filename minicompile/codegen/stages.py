"""Cut a kernel's straight line into loops over the inner axes, with row-level code between them.

In: a `Kernel` and the names of its inner axes (the reduce axes; for a pointwise kernel in C++ the innermost parallel
one).
Out: `Stages`: for each loop the values computed in it; the row-level values that are ready before each loop; and the
values kept for a later loop in a buffer one row long.

A reduction's result is ready only after the loop that feeds it, so a value that depends on it belongs to the next
loop. A value that an earlier loop computed and a later one needs is computed again if that is cheap (x - max), else
kept (exp(x - max))."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.ops import POINTWISE
from .kernel_ir import Kernel, Value

LEAVES = ("const", "size")


@dataclass
class Stages:
    """The plan of one kernel.

    Attributes:
        block: values that differ along the inner axes.
        rows: rows[k]: row-level values to compute before loop k (the last entry: after the last loop).
        loops: loops[k]: block-level values to compute in loop k, in order, its reduces and stores included.
        kept: value → the loop that writes its row buffer; later loops read it.
    """

    block: frozenset[Value]
    rows: list[list[Value]]
    loops: list[list[Value]]
    kept: dict[Value, int] = field(default_factory=dict)


def stage(kernel: Kernel, inner: frozenset[str], recompute_up_to: int) -> Stages:
    """Plan the loops. Values whose recomputation costs more than `recompute_up_to` (op table's costs) are kept."""
    return _Stager(kernel, inner, recompute_up_to).run()


def row_stages(kernel: Kernel) -> Stages:
    """The plan over the reduce axes where nothing is kept: a Triton block is in registers, or computed again."""
    return stage(kernel, frozenset(axis.name for axis in kernel.of_kind("reduce")), 1 << 30)


class _Stager:
    def __init__(self, kernel: Kernel, inner: frozenset[str], limit: int) -> None:
        self.kernel, self.inner, self.limit = kernel, inner, limit
        self.block: set[Value] = set()
        self.ready: dict[Value, int] = {}
        self.kept: dict[Value, int] = {}
        for value in kernel.body:
            self._classify(value)

    def _classify(self, value: Value) -> None:
        self.ready[value] = max((self.ready[arg] for arg in value.args), default=0)
        if value.op == "reduce":
            self.ready[value] += 1
        elif value.op in ("load", "index"):
            if value.attrs["index"].uses(self.inner) or any(arg in self.block for arg in value.args):
                self.block.add(value)
        elif value.op == "scan":
            self.block.add(value)
        elif value.op == "store":
            # Of strides of 0, every element goes to one place: still from where it is computed.
            if value.attrs["block"] or value.attrs["index"].uses(self.inner) or value.args[0] in self.block:
                self.block.add(value)
        elif any(arg in self.block for arg in value.args):
            self.block.add(value)

    def run(self) -> Stages:
        sinks = [v for v in self.kernel.body if v.op == "reduce" or (v.op == "store" and v in self.block)]
        count = max((self._loop_of(sink) for sink in sinks), default=-1) + 1
        wanted: list[set[Value]] = [set() for _ in range(count)]
        for k in range(count):
            for sink in sinks:
                if self._loop_of(sink) == k:
                    self._want(sink, k, wanted)
        loops = [[v for v in self.kernel.body if v in found] for found in wanted]
        rows: list[list[Value]] = [[] for _ in range(count + 1)]
        for value in self.kernel.body:
            if value not in self.block and value.op != "reduce":
                rows[min(self.ready[value], count)].append(value)
        return Stages(frozenset(self.block), rows, loops, self.kept)

    def _loop_of(self, sink: Value) -> int:
        return self.ready[sink] - (sink.op == "reduce")

    def _want(self, value: Value, k: int, wanted: list[set[Value]]) -> None:
        """Loop k needs the value, and what it is made of: compute them there, or read what an earlier loop kept."""
        wanted[k].add(value)
        stack = [iter(self._operands(value, k))]  # depth first; of our own, for chains of thousands
        while stack:
            arg = next(stack[-1], None)
            if arg is None:
                stack.pop()
            elif arg in self.block and arg not in wanted[k]:
                if self.ready[arg] < k and arg not in self.kept and self._costs_more(arg):
                    self.kept[arg] = self._first_loop(arg, wanted)
                wanted[k].add(arg)
                stack.append(iter(self._operands(arg, k)))

    def _operands(self, value: Value, k: int) -> tuple[Value, ...]:
        """What loop k must have in order to have the value."""
        return () if self.kept.get(value, k) < k else value.args

    def _first_loop(self, value: Value, wanted: list[set[Value]]) -> int:
        """The earliest loop that computes the value (`ready` if none did yet)."""
        for k, found in enumerate(wanted):
            if value in found:
                return k
        self._want(value, self.ready[value], wanted)
        return self.ready[value]

    def _costs_more(self, value: Value) -> bool:
        """Whether computing the value again costs more than the limit. An instruction counts once, however often it is
        read on the way: in x + x of a y + y of … there are 2^n paths."""
        found, stack, cost = {value}, [value], 0
        while stack and cost <= self.limit:
            current = stack.pop()
            if current not in self.block or current in self.kept:
                continue
            if current.op == "scan":
                return True
            cost += POINTWISE[current.op].cost if current.op in POINTWISE else 1
            new = [arg for arg in dict.fromkeys(current.args) if arg not in found]
            found.update(new)
            stack.extend(new)
        return cost > self.limit
