"""Eager, the reference interpreter and C++ must agree on a program.

In: programs. Out: for each that fails, what differs, as text, with the program.
"""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from minicompile import passes
from minicompile.ir import reference
from minicompile.ir.graph import Graph, Node
from minicompile.lowering import LoweringError, lower

from .batch import Batch
from .programs import Program, Value, Writer
from .rounding import within


class RandomChoices:
    """Choices by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.random.randrange(len(items))]

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def program(seed: int, steps: int = 10) -> Program:
    """The program of a seed."""
    with torch.no_grad():
        return Writer(RandomChoices(seed)).program(steps)


def run_batch(first: int, count: int, steps: int) -> list[str]:
    """Try the programs of `count` seeds from `first` on; returns a text for each failure. For a process of its own."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    programs = {id(one): (seed, one) for seed in range(first, first + count) for one in [program(seed, steps)]}
    failures = check([one for _, one in programs.values()])
    return [f"--- seed {programs[id(one)][0]}: {why}\n{one.graph.graph}\n" for one, why in failures]


def check(programs: Sequence[Program]) -> list[tuple[Program, str]]:
    """The programs that fail, each with what went wrong."""
    batch, ready, failures = Batch(), [], []
    for one in programs:
        try:
            graph = lower(one.graph, one.inputs)
            compare(one, graph, reference.run(graph, *one.inputs), "the reference interpreter")
            ready.append((one, graph, batch.add(passes.run(graph))))
        except LoweringError:
            raise
        except Exception as error:
            failures.append((one, _text(error)))
    batch.build()
    for one, graph, compiled in ready:
        try:
            compare(one, graph, compiled(*one.inputs), "C++")
        except Exception as error:
            text = "\n".join([_text(error), str(compiled.ir), *(kernel.ir for kernel in compiled.kernels)])
            failures.append((one, text))
    return failures


def _text(error: Exception) -> str:
    if isinstance(error, AssertionError):
        return str(error)
    return "".join(traceback.format_exception(error)[-6:])


def compare(one: Program, graph: Graph, results: Sequence[Any], who: str) -> None:
    """Raises AssertionError where a result is not eager's."""
    for i, (value, result) in enumerate(zip(one.outputs, results, strict=True)):
        wanted = value.tensor
        same = (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        assert same and (_places(result) == _places(wanted) or not _known(graph, i, wanted)), (
            f"output {i} of {who}: {result.dtype} {tuple(result.shape)} {result.stride()} for "
            f"{wanted.dtype} {tuple(wanted.shape)} {wanted.stride()}"
        )
        assert _agree(value, result), f"output {i} of {who}:\n{result}\nfor eager's\n{wanted}"


def _known(graph: Graph, index: int, wanted: torch.Tensor) -> bool:
    """Whether the fake tensors of the trace knew eager's strides: of rare layouts they do not."""
    out = graph.outputs[index]
    type = out.tensor if isinstance(out, Node) else out.type
    return [pair for pair in zip(type.shape, type.strides, strict=True) if pair[0] != 1] == _places(wanted)


def _places(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Sizes and strides of the dimensions that have more than one element."""
    if tensor.numel() == 0:
        return []
    return [pair for pair in zip(tensor.shape, tensor.stride(), strict=True) if pair[0] != 1]


def _agree(value: Value, result: torch.Tensor) -> bool:
    """Bit for bit where exact (all NaNs being one), else within the tolerance and the spread."""
    wanted = value.tensor
    if not wanted.dtype.is_floating_point:
        return torch.equal(result, wanted)
    if value.exact:
        number = ~wanted.isnan()
        bits = torch.equal(result.signbit() & number, wanted.signbit() & number)
        return bits and torch.equal(result.isnan(), wanted.isnan()) and torch.equal(result[number], wanted[number])
    return within(result, wanted, value.tolerance, value.spread)
