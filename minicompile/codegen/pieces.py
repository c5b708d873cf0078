"""Cut a kernel where its masks change: a concatenation becomes one plain loop for each of its parts.

In: a `Kernel` whose body compares the index of an axis with constants (cat, pad, slice_scatter, rotary embeddings).
Out: kernels over parts of that axis, together the same; in each the comparisons are decided, so that what is masked
away is not loaded and what is not masked is loaded without asking.

A row of eight concatenated tensors is otherwise eight masked loads and seven selections an element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .kernel_ir import Affine, Axis, Kernel, Value

AT_MOST = 16
"""Pieces of a kernel; each costs compile time."""

SHORTEST = 16
"""Elements that a piece of the innermost axis must have: a vector."""

_DECIDE = {
    "lt": lambda low, high, c: True if high < c else False if low >= c else None,
    "le": lambda low, high, c: True if high <= c else False if low > c else None,
    "gt": lambda low, high, c: True if low > c else False if high <= c else None,
    "ge": lambda low, high, c: True if low >= c else False if high < c else None,
}
"""Comparison → its answer for all indices in [low, high], or None where it differs."""

_STEP = {"lt": 0, "ge": 0, "le": 1, "gt": 1}
"""The comparison changes between c + step - 1 and c + step."""


def pieces(kernel: Kernel) -> list[Kernel]:
    """The kernels, in order; the kernel alone where there is nothing to gain."""
    found = [kernel]
    for axis in kernel.of_kind("parallel"):
        cuts = _cuts(kernel, axis)
        if cuts and len(found) * (len(cuts) + 1) <= AT_MOST:
            found = [part for piece in found for part in _cut(piece, axis.name, cuts)]
    if len(found) == 1 or kernel.is_reduction and not all(piece.is_reduction for piece in found):
        return [kernel]  # a piece that has lost its reductions would not walk its rows
    return [replace(piece, name=f"{kernel.name}_{i}") for i, piece in enumerate(found)]


def _compared(value: Value) -> tuple[str, int, int] | None:
    """(axis, offset, constant) of a comparison of `axis + offset` with a constant."""
    if value.op not in _DECIDE or len(value.args) != 2 or value.args[0].op != "index" or value.args[1].op != "const":
        return None
    index: Affine = value.args[0].attrs["index"]
    constant = value.args[1].attrs["value"]
    if len(index.terms) != 1 or index.terms[0][1] != 1 or not isinstance(index.offset, int):
        return None
    return (index.terms[0][0], index.offset, constant) if isinstance(constant, int) else None


def _cuts(kernel: Kernel, axis: Axis) -> list[int]:
    """Where to cut the axis, or nowhere: an unknown size, pieces too short for vectors."""
    if not isinstance(axis.size, int):
        return []
    places: Counter[int] = Counter()
    for value in kernel.body:
        compared = _compared(value)
        if compared is not None and compared[0] == axis.name:
            places[compared[2] + _STEP[value.op] - compared[1]] += 1
    cuts = sorted(place for place in places if 0 < place < axis.size)
    ends = [0, *cuts, axis.size]
    shortest = min((b - a for a, b in zip(ends, ends[1:], strict=False)), default=0)
    is_innermost = kernel.axes[-1] is axis
    return [] if is_innermost and shortest < SHORTEST else cuts


def _cut(kernel: Kernel, name: str, cuts: Sequence[int]) -> list[Kernel]:
    size = next(axis.size for axis in kernel.axes if axis.name == name)
    ends = [0, *cuts, size]
    return [_Piece(kernel, name, low, high).build() for low, high in zip(ends, ends[1:], strict=False)]


class _Piece:
    """The kernel over [low, high) of one axis, which counts from 0 again."""

    def __init__(self, kernel: Kernel, axis: str, low: int, high: int) -> None:
        self.kernel, self.axis, self.low, self.high = kernel, axis, low, high
        self.new: dict[Value, Value] = {}

    def build(self) -> Kernel:
        for value in self.kernel.body:
            self.new[value] = self._rewritten(value, tuple(self.new[arg] for arg in value.args))
        length = self.high - self.low
        axes = tuple(replace(a, size=length, hint=length) if a.name == self.axis else a for a in self.kernel.axes)
        return replace(self.kernel, axes=axes, body=_needed(list(dict.fromkeys(self.new.values()))))

    def _rewritten(self, value: Value, args: tuple[Value, ...]) -> Value:
        compared = _compared(value)
        if compared is not None and compared[0] == self.axis:
            answer = _DECIDE[value.op](self.low + compared[1], self.high - 1 + compared[1], compared[2])
            if answer is not None:
                return _constant(answer, torch.bool)
        if value.op == "logical_and" and any(arg.op == "const" for arg in args):
            fixed, other = (args[0], args[1]) if args[0].op == "const" else (args[1], args[0])
            return other if fixed.attrs["value"] else _constant(False, torch.bool)
        if value.op == "where" and args[0].op == "const":
            return args[1] if args[0].attrs["value"] else args[2]
        attrs = dict(value.attrs)
        if "index" in attrs:
            attrs["index"] = self._shifted(attrs["index"])
        if value.op == "load" and attrs.get("masked") and args[-1].op == "const":
            if not args[-1].attrs["value"]:
                return _constant(0, value.dtype)
            args, attrs = args[:-1], {**attrs, "masked": False}
        return replace(value, args=args, attrs=attrs)

    def _shifted(self, index: Affine) -> Affine:
        return Affine(index.terms, index.offset + index.coefficient(self.axis) * self.low)


def _constant(value: Any, dtype: torch.dtype) -> Value:
    return Value("const", (), dtype, {"value": value})


def _needed(body: list[Value]) -> tuple[Value, ...]:
    """Without what nothing reads. A check stays: it may refuse the call."""
    wanted: set[Value] = set()
    for value in reversed(body):
        if value.op in ("store", "check") or value in wanted:
            wanted.add(value)
            wanted.update(value.args)
    return tuple(value for value in body if value in wanted)
