"""Accumulators in C++: how each reduction starts, takes an element, joins partial results and ends.

In: a reduce instruction and a name. Out: lines of C++.

Two levels keep long sums exact and the loops simple: a *run* of at most `RUN` elements is reduced by one vectorised
loop in the register type; runs are joined in a wider *total* (double for float). max and min carry NaN beside the
value, in an integer, because the processor's max drops it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..ir.ops import REDUCTIONS
from .cpp_text import CPP_TYPES, literal
from .kernel_ir import Value

RUN = 64
"""Elements of a run: four additions in each lane of a vector, whose roundings stay below the last one's."""

_OMP = {"sum": "+", "prod": "*", "amax": "max", "amin": "min", "any": "|", "all": "&"}


@dataclass(frozen=True)
class Accumulator:
    """The text of one reduction; `name` is the SSA name of the result."""

    value: Value
    name: str

    @property
    def kind(self) -> str:
        return str(self.value.attrs["kind"])

    @property
    def type(self) -> str:
        return CPP_TYPES[self.value.dtype]

    @property
    def total_type(self) -> str:
        return "double" if self.kind == "sum" and self.value.dtype == torch.float32 else self.type

    @property
    def nan_type(self) -> str | None:
        """The integer that remembers NaN, as wide as the value so that both vectorise alike."""
        if self.kind not in ("amax", "amin") or not self.value.dtype.is_floating_point:
            return None
        return "int64_t" if self.value.dtype == torch.float64 else "int32_t"

    @property
    def total(self) -> str:
        """The variable that runs are joined in."""
        return f"total_{self.name}"

    def identity(self) -> str:
        return literal(REDUCTIONS[self.kind].identity(self.value.dtype), self.value.dtype)

    def declare_total(self) -> str:
        return f"{self.total_type} {self.total} = {self.identity()};"

    def declare_run(self, wide: bool = False) -> str:
        """`wide`: in the total's type, for lanes to be summed in it."""
        nan = f" {self.nan_type} nan_{self.name} = 0;" if self.nan_type else ""
        return f"{self.total_type if wide else self.type} run_{self.name} = {self.identity()};{nan}"

    def reset_run(self) -> str:
        """Begin a declared run again."""
        nan = f" nan_{self.name} = 0;" if self.nan_type else ""
        return f"run_{self.name} = {self.identity()};{nan}"

    def clause(self) -> str:
        nan = f" reduction(|:nan_{self.name})" if self.nan_type else ""
        return f"reduction({_OMP[self.kind]}:run_{self.name}){nan}"

    def take(self, arg: str) -> str:
        """One element into the run. NaN is noted by a choice: gcc does not vectorise `nan |= x != x` where x is itself
        a choice by a mask of bytes (a masked softmax took twice as long)."""
        run = f"run_{self.name}"
        if self.kind in ("amax", "amin"):
            sign = ">" if self.kind == "amax" else "<"
            nan = f" nan_{self.name} = {arg} != {arg} ? 1 : nan_{self.name};" if self.nan_type else ""
            return f"{run} = {arg} {sign} {run} ? {arg} : {run};{nan}"
        return f"{run} {_OMP[self.kind]}= {arg};"

    def declare_lanes(self, lanes: int) -> list[str]:
        """A run's partial results side by side (cpp_lanes.py)."""
        fill = f"for (int64_t lane = 0; lane < {lanes}; ++lane) lanes_{self.name}[lane] = {self.identity()};"
        nan = [f"alignas(64) {self.nan_type} nans_{self.name}[{lanes}] = {{}};"] if self.nan_type else []
        return [f"alignas(64) {self.type} lanes_{self.name}[{lanes}];", fill, *nan]

    def refer_to_lane(self) -> str:
        """In a loop over `lane`: what `take` adds to is that lane's."""
        nan = f" {self.nan_type} &nan_{self.name} = nans_{self.name}[lane];" if self.nan_type else ""
        return f"{self.type} &run_{self.name} = lanes_{self.name}[lane];{nan}"

    def take_lane(self) -> str:
        """One lane into the run."""
        nan = f" nan_{self.name} |= nans_{self.name}[lane];" if self.nan_type else ""
        return self.take(f"lanes_{self.name}[lane]") + nan

    def run_result(self) -> str:
        if self.nan_type is None:
            return f"run_{self.name}"
        return f"(nan_{self.name} ? {literal(float('nan'), self.value.dtype)} : run_{self.name})"

    def combined(self, one: str, other: str) -> str:
        """Two partial results as one; NaN wins."""
        if self.kind in ("amax", "amin"):
            return f"mc_{'maximum' if self.kind == 'amax' else 'minimum'}({one}, ({self.type}){other})"
        return f"{one} {_OMP[self.kind]} {other}"

    def join(self, part: str) -> str:
        """A run, or another thread's total, into the total."""
        return f"{self.total} = {self.combined(self.total, part)};"

    def finish(self) -> str:
        return f"const {self.type} {self.name} = ({self.type}){self.total};"
