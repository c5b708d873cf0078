"""Which consecutive kernels are launched by one native call, a *run*, and where what only they need lies.

In: for each unit in running order what the kernels of a run must have in common, and the pieces of memory with their
lifetimes. Out: `Stretch`es: of one unit, or of the units of a run, whose *arena*, one allocation, holds the memory that
is born and dies in it.

What a run returns is allocated before it, and what dies in it is kept until its end. So that no more memory is needed
than for single calls, a run ends where it would hold `SLACK` more than the most that single calls hold at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ..ir.graph import Node
from ..runtime.runs import Run

SLACK = 1 << 20
"""Bytes that a run may hold beyond what single calls would."""

AT_MOST = 128
"""Kernels of one run."""

ALIGNMENT = 512
"""Of a piece of an arena, in bytes: what torch's allocator gives on a GPU. (A CPU's kernels would do with 64.)"""

Operand = tuple[str, int]
"""A variable of the wrapper, and bytes from where its tensor starts."""


@dataclass(frozen=True, eq=False)
class Memory:
    """A piece of memory that some units need.

    Attributes:
        node: the first that is stored there.
        birth: the number of the unit that stores it; -1: it was there before.
        death: the number of the last unit that needs it; the number of units where it lives on.
        size: in bytes.
    """

    node: Node
    birth: int
    death: int
    size: int


@dataclass(frozen=True)
class Stretch:
    """Consecutive units; several are a run.

    Attributes:
        units: their numbers.
        offsets: the node first stored in each piece of the arena → where that begins, in bytes.
        size: of the arena, in bytes.
    """

    units: range
    offsets: Mapping[Node, int] = field(default_factory=dict)
    size: int = 0

    @property
    def is_run(self) -> bool:
        return len(self.units) > 1


def plan_runs(kinds: Sequence[Hashable], memories: Sequence[Memory]) -> list[Stretch]:
    """See the module's docstring.

    Args:
        kinds: for each unit; only units of equal kind can be a run, and those of kind None are no part of any.
        memories: those that are born or die at some unit. All sizes are known.
    """
    return list(_Runs(kinds, memories))


class _Runs:
    def __init__(self, kinds: Sequence[Hashable], memories: Sequence[Memory]) -> None:
        self.kinds = kinds
        self.ends: list[list[Memory]] = [[] for _ in kinds]  # what is born or dies at each unit
        for memory in memories:
            for end in {memory.birth, memory.death}:
                if 0 <= end < len(kinds):
                    self.ends[end].append(memory)

    def __iter__(self) -> Iterator[Stretch]:
        stop = 0
        while stop < len(self.kinds):
            start, stop = stop, stop + 1
            while self._goes_on(start, stop):
                stop += 1
            units = range(start, stop)
            yield self._laid_out(units) if len(units) > 1 else Stretch(units)

    def _goes_on(self, start: int, stop: int) -> bool:
        if stop == len(self.kinds) or stop - start == AT_MOST or self.kinds[start] is None:
            return False
        return self.kinds[stop] == self.kinds[start] and self._is_frugal(range(start, stop + 1))

    def _is_frugal(self, units: range) -> bool:
        touched = self._touched(units)
        if sum(memory.size for memory in touched) <= SLACK:
            return True
        outside = sum(memory.size for memory in touched if not _within(memory, units))
        return self._laid_out(units).size + outside <= _most_at_a_time(touched, units) + SLACK

    def _touched(self, units: range) -> list[Memory]:
        """The pieces of memory that are born or die in these units, in the order of their births."""
        found = dict.fromkeys(memory for unit in units for memory in self.ends[unit])
        return sorted(found, key=lambda memory: memory.birth)

    def _laid_out(self, units: range) -> Stretch:
        """With an arena: each piece at the lowest place that is free for its life."""
        offsets: dict[Node, int] = {}
        living: list[tuple[int, int, int]] = []  # begin, end, death; by begin
        size = 0
        for memory in self._touched(units):
            if not _within(memory, units):
                continue
            living = [piece for piece in living if piece[2] >= memory.birth]
            length = -(-memory.size // ALIGNMENT) * ALIGNMENT
            begin = 0
            for other, end, _ in living:
                if begin + length <= other:
                    break
                begin = end
            living = sorted([*living, (begin, begin + length, memory.death)])
            offsets[memory.node] = begin
            size = max(size, begin + length)
        return Stretch(units, offsets, size)


def _within(memory: Memory, units: range) -> bool:
    return memory.birth in units and memory.death in units


def _most_at_a_time(memories: Sequence[Memory], units: range) -> int:
    """The most bytes that single calls of the units hold at a time, of these pieces of memory."""
    changes = [0] * (len(units) + 1)
    for memory in memories:
        changes[max(memory.birth, units.start) - units.start] += memory.size
        changes[min(memory.death + 1, units.stop) - units.start] -= memory.size
    return max(accumulate(changes))


# --- text -----------------------------------------------------------------------------------------------------------


def as_run(kernels: Sequence[str], steps: Sequence[Sequence[Operand]]) -> tuple[Run, list[str]]:
    """The native call of these kernels on these operands, and the variables whose tensors it takes."""
    given = list(dict.fromkeys(variable for step in steps for variable, _ in step))
    places = tuple(tuple((given.index(variable), offset) for variable, offset in step) for step in steps)
    return Run(tuple(kernels), places, len(given)), given


def step_texts(kernels: Sequence[str], steps: Sequence[Sequence[Operand]]) -> Iterator[str]:
    """`kernel_1_exp_sum(x, arena_0[512:])` for each step."""
    for kernel, step in zip(kernels, steps, strict=True):
        yield f"{kernel}({', '.join(map(_operand_text, step))})"


def _operand_text(operand: Operand) -> str:
    variable, offset = operand
    return f"{variable}[{offset}:]" if variable.startswith("arena_") else variable
