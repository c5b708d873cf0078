"""A batch in Triton: one function for the work, and a kernel whose programs are shared out among the members.

In: a `Batch`. Out: its `TritonText`. The function is inlined once for each member, with that member's tensors, size and
first program: addresses keep their alignment, and a size is a constant."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from .kernel_ir import Batch
from .triton import Printer, TritonText, fits_int32
from .triton_loops import LoopPrinter
from .triton_shape import PROGRAMS, Shape, power_of_two, shape_of


class _Work(Printer):
    """Prints the work of one member as a function of its program's number."""

    def _program(self) -> str:
        return "program" + ("" if self.index == "tl.int32" else ".to(tl.int64)")

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "program"]


class _LoopWork(_Work, LoopPrinter):
    """The same for rows that are walked by a loop."""


def print_batch(batch: Batch) -> TritonText:
    """See the module's docstring."""
    shape = _shape(batch)
    work = (_LoopWork if shape.kind == "rows" and not shape.pieces else _Work)(batch.text, shape)
    work.index = "tl.int32" if all(map(fits_int32, batch.members)) else "tl.int64"
    programs = [shape.programs({name: size for name in batch.text.symbols[-1:]}) for size in batch.sizes()]
    programs = programs or [shape.programs({})] * len(batch.members)
    arguments = [*(buffer.name for buffer in batch.buffers), *batch.symbols]
    arguments += [f"{block}: tl.constexpr" for block in shape.blocks]
    lines = ["@triton.jit", f"def {batch.name}({', '.join(arguments)}):", "    program = tl.program_id(0)"]
    for i, (end, own) in enumerate(zip(accumulate(programs), programs, strict=True)):
        word = "if" if i == 0 else "elif" if i < len(programs) - 1 else "else"
        lines.append(f"    {word}:" if word == "else" else f"    {word} program < {end}:")
        given = [*(batch.buffers[place].name for place in batch.places[i]), *batch.symbols]
        given += [*map(str, batch.sizes()[i : i + 1]), f"program - {end - own}", *shape.blocks]
        lines.append(f"        {batch.text.name}({', '.join(given)})")
    whole = replace(shape, grid=((sum(programs), 1),))
    return TritonText(batch, "\n".join([work.text().source, "", "", *lines]), whole)


def _shape(batch: Batch) -> Shape:
    """That of one member, but for blocks that may be larger: other members keep the device busy."""
    shape = shape_of(batch.text)
    if shape.kind != "flat":
        return shape
    sizes = [kernel.hint("parallel") for kernel in batch.members]
    block = 1024
    while block > 256 and sum(sizes) < block * PROGRAMS:
        block //= 2
    block = min(block, max(power_of_two(max(sizes)), 32))
    return replace(shape, blocks={"XBLOCK": block}, grid=((shape.grid[0][0], block),), num_warps=max(1, block // 256))
