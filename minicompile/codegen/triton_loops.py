"""Triton kernels whose rows are too long for registers: loops over the lanes, as `stages` cuts them.

In: a reduction `Kernel` and a `Shape` without pieces. Out: its text.

Each loop keeps one partial result a lane, joined after it. A maximum and the sum of the exponentials below it, which
would be two loops, are one: the running sum is rescaled whenever the running maximum grows (Milakov and Gimelshein,
"Online normalizer calculation for softmax", 2018)."""

from __future__ import annotations

import torch

from ..ir.ops import SCANS
from ..ir.symbols import dim_text
from .kernel_ir import Value
from .softmaxes import PER_LANE, online_sum, sums_to_one_or_more
from .triton import Printer
from .triton_text import COMBINE, TL_TYPES, constant


class LoopPrinter(Printer):
    """See the module's docstring."""

    def _body(self) -> None:
        loops, k = self.stages.loops, 0
        while k < len(loops):
            for value in self.stages.rows[k]:
                self._emit(value)
            total = online_sum(loops, k)
            if total is None:
                self._loop(loops[k])
            else:
                self._online_loop(loops[k], total)
                k += 1
                for value in self.stages.rows[k]:
                    self._emit(value)
            k += 1
        for value in self.stages.rows[-1]:
            self._emit(value)

    def _loop_head(self) -> None:
        size, lanes = self.kernel.size("reduce"), self.shape.blocks["RBLOCK"]
        self._line(f"for start in range(0, {dim_text(size)}, RBLOCK):")
        self.indent += "    "
        masked = not isinstance(size, int) or size % lanes != 0
        self._lanes("start + tl.arange(0, RBLOCK)[None, :]", masked)

    def _accumulator(self, name: str, start: str, dtype: torch.dtype, lanes: str = "RBLOCK") -> None:
        self._line(f"{name} = tl.full([XBLOCK, {lanes}], {start}, {TL_TYPES[dtype]})")

    def _loop(self, loop: list[Value]) -> None:
        reduces = [value for value in loop if value.op == "reduce"]
        for value in reduces:
            self._accumulator(f"{self._name(value)}_acc", self._identity(value), value.dtype)
        for value in loop:
            if value.op == "scan":
                start = SCANS[value.attrs["kind"]].identity(value.dtype)
                self._line(f"{self._name(value)}_carry = tl.full([XBLOCK, 1], {start}, {TL_TYPES[value.dtype]})")
        self._loop_head()
        for value in loop:
            step = {"reduce": self._accumulate, "scan": self._scan_step}.get(value.op, self._emit)
            step(value)
        self.indent = self.indent[4:]
        for value in reduces:
            self._finish(value, self._name(value), f"{self._name(value)}_acc")
            self._prepare_divisor(value)

    def _accumulate(self, value: Value) -> None:
        acc = f"{self._name(value)}_acc"
        self._line(f"{acc} = {COMBINE[value.attrs['kind']]}({acc}, {self._inside(value)})")

    def _scan_step(self, value: Value) -> None:
        """The scan of one block of lanes, joined with what the blocks before have carried."""
        name, arg = self._name(value), self._name(value.args[0])
        row = SCANS[value.attrs["kind"]]
        combine, identity = COMBINE[row.combine], constant(row.identity(value.dtype), value.dtype, 2)
        mask = self._mask("xr")
        inside = arg if mask is None else f"tl.where({mask}, {arg}, {identity})"
        self._line(f"{name} = {combine}({name}_carry, {self._scanned(value)})")
        self._line(f"{name}_all = tl.reduce({inside}, 1, {combine})[:, None]")
        self._line(f"{name}_carry = {combine}({name}_carry, {name}_all)")

    # --- online softmax -----------------------------------------------------------------------------------------

    def _online_loop(self, loop: list[Value], total: Value) -> None:
        """Whole blocks, then what is left of the row: lanes need no mask but there."""
        largest = next(value for value in loop if value.op == "reduce")
        high, sum_ = self._name(largest), self._name(total)
        self._accumulator(f"{high}_acc", self._identity(largest), largest.dtype, f"RBLOCK // {PER_LANE}")
        self._accumulator(f"{sum_}_acc", "0.0", total.dtype, f"RBLOCK // {PER_LANE}")
        if self.shape.skew is not None:
            self._lanes("tl.arange(0, RBLOCK)[None, :]", masked=True, is_first=True)
            self._online_step(loop, largest, sum_)
        whole = f"({dim_text(self.kernel.size('reduce'))}) // RBLOCK * RBLOCK"
        self._line(f"for start in range({'RBLOCK' if self.shape.skew else '0'}, {whole}, RBLOCK):")
        self.indent += "    "
        self._lanes("start + tl.arange(0, RBLOCK)[None, :]", masked=False)
        self._online_step(loop, largest, sum_)
        self.indent = self.indent[4:]
        for start in self._last_blocks(whole):
            self._lanes(f"{start} + tl.arange(0, RBLOCK)[None, :]", masked=True)
            self._online_step(loop, largest, sum_)
        self._finish(largest, high, f"{high}_acc")
        self._finish(total, f"{sum_}_all", f"({sum_}_acc * mc_exp_below({high}_acc - {high}))")
        self._line(f"{sum_} = tl.where(mc_isinf({high}), {self._of_infinite(total, high)}, {sum_}_all)")
        self._prepare_divisor(total)
        self._prepare_divisor(largest)

    def _last_blocks(self, whole: str) -> list[str]:
        """Where the blocks start that reach beyond the row, or may do so."""
        size, lanes = self.kernel.size("reduce"), self.shape.blocks["RBLOCK"]
        if not isinstance(size, int):
            return [whole]
        end = size + (self.shape.skew.period - 1 if self.shape.skew else 0)
        return [str(start) for start in range(size // lanes * lanes, end, lanes)]

    def _online_step(self, loop: list[Value], largest: Value, sum_: str) -> None:
        high = self._name(largest)
        for value in loop:
            if value is not largest:
                self._emit(value)
        self._line(f"{high}_in = {self._inside(largest)}")
        self._line(f"{sum_}_acc, {high}_acc = mc_online_sum({sum_}_acc, {high}_acc, {high}_in)")

    def _of_infinite(self, total: Value, high: str) -> str:
        """The sum where the maximum is infinite: inf - inf, as in eager, or where a zero has replaced it, e^±inf."""
        return 'float("nan")' if sums_to_one_or_more(total) else f"mc_exp({high})"
