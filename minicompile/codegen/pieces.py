"""Cut a kernel where its masks change: a concatenation becomes one plain loop for each of its parts.

In: a `Kernel` whose body compares the index of an axis with sizes (cat, pad, slice_scatter, rotary embeddings).
Out: kernels over parts of that axis, together the same; in each the comparisons are decided, so that what is masked
away is not loaded and what is not masked is loaded without asking.

A row of eight concatenated tensors is otherwise eight masked loads and seven selections an element. Sizes may be
symbolic where their order is certain, as that of sums of sizes is; a part may then be empty: its loop does nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from itertools import count as count_from
from typing import Any

import torch

from ..ir.symbols import evaluate, free_symbols
from .kernel_ir import Affine, Axis, Dim, Kernel, Value

AT_MOST = 16
"""Pieces of a kernel; each costs compile time."""

SHORTEST = 16
"""Elements that a piece of the innermost axis must have: a vector."""

SHORTEST_UNKNOWN = 64
"""The same where its length is not known: such a loop costs more to enter (rotary embeddings of 2 · 32 took 1.35 of
the time for known sizes when cut, and take 1.07 when not)."""

_CHANGES = {"lt": 0, "ge": 0, "le": 1, "gt": 1}
"""The comparison of an index with c changes between c + step - 1 and c + step."""

_HOLDS_BELOW = ("lt", "le")


def pieces(kernel: Kernel) -> list[Kernel]:
    """The kernels, in order; the kernel alone where there is nothing to gain."""
    return list(chain.from_iterable(pieces_by_rows(kernel)))


def pieces_by_rows(kernel: Kernel) -> list[list[Kernel]]:
    """The same, those together that are parts of the same rows: which the innermost axis is cut into."""
    found = [[kernel]]
    for axis in kernel.of_kind("parallel"):
        cuts, count = _cuts(kernel, axis), sum(map(len, found))
        if cuts and count * (len(cuts) + 1) <= AT_MOST:
            cut = [_cut(piece, axis, cuts) for row in found for piece in row]
            found = cut if axis is kernel.axes[-1] else [[part] for parts in cut for part in parts]
    flat = list(chain.from_iterable(found))
    if len(flat) == 1 or kernel.is_reduction and not all(piece.is_reduction for piece in flat):
        return [[kernel]]  # a piece that has lost its reductions would not walk its rows
    number = count_from(0)
    return [[replace(piece, name=f"{kernel.name}_{next(number)}") for piece in row] for row in found]


def _compared(value: Value) -> tuple[str, Dim] | None:
    """(axis, place) of a comparison of that axis's index with a size: from `place` on its answer is another."""
    if value.op not in _CHANGES or len(value.args) != 2 or value.args[0].op != "index":
        return None
    index: Affine = value.args[0].attrs["index"]
    limit = _limit(value.args[1])
    if len(index.terms) != 1 or index.terms[0][1] != 1 or limit is None:
        return None
    return index.terms[0][0], limit + _CHANGES[value.op] - index.offset


def _limit(value: Value) -> Dim | None:
    """What an index is compared with, if it is an integer known before the loop."""
    if value.op == "const":
        return value.attrs["value"] if type(value.attrs["value"]) is int else None
    return value.attrs["dim"] if value.op == "size" and value.dtype == torch.int64 else None


def _at_most(one: Dim, other: Dim) -> bool:
    """Whether one ≤ other is certain; sizes are not negative, other symbols may be anything."""
    difference = other - one
    if isinstance(difference, int):
        return difference >= 0
    return difference.is_nonnegative is True or (_least(difference) + 1).is_positive is True  # it is an integer


def _least(difference: Any) -> Any:
    """Something that is not greater, with fractions in place of floor divisions: half of a row is at most a row."""
    from sympy import Function, expand

    difference = expand(difference)
    for floor in [atom for atom in difference.atoms(Function) if type(atom).__name__ == "FloorDiv"]:
        times, (dividend, divisor) = difference.coeff(floor), floor.args
        if times.is_number and divisor.is_positive:
            bound = dividend / divisor if times < 0 else (dividend - divisor + 1) / divisor
            difference = difference + times * (bound - floor)
    return difference


def _cuts(kernel: Kernel, axis: Axis) -> list[Dim]:
    """Where to cut the axis, in order, or nowhere: an order that is not certain, pieces too short for vectors."""
    compared = [found[1] for found in map(_compared, kernel.body) if found is not None and found[0] == axis.name]
    cuts: list[Dim] = []
    for place in dict.fromkeys(compared):
        if _at_most(place, 0) or _at_most(axis.size, place):
            continue
        if not (_at_most(0, place) and _at_most(place, axis.size)):
            return []
        before = [cut for cut in cuts if _at_most(cut, place)]
        if not all(_at_most(place, cut) for cut in cuts[len(before) :]):
            return []
        cuts.insert(len(before), place)
    lengths = [b - a for a, b in pairwise([0, *cuts, axis.size])]
    is_innermost = kernel.axes[-1] is axis
    return [] if is_innermost and any(_is_short(length, axis) for length in lengths) else cuts


def _is_short(length: Dim, axis: Axis) -> bool:
    return length < SHORTEST if isinstance(length, int) else _hint(length, axis) < SHORTEST_UNKNOWN


def _cut(kernel: Kernel, axis: Axis, cuts: Sequence[Dim]) -> list[Kernel]:
    return [_Piece(kernel, axis, low, end).build() for low, end in pairwise([0, *cuts, axis.size])]


class _Piece:
    """The kernel over [low, end) of one axis, which counts from 0 again."""

    def __init__(self, kernel: Kernel, axis: Axis, low: Dim, end: Dim) -> None:
        self.kernel, self.axis, self.low, self.end = kernel, axis.name, low, end
        self.length = end - low
        self.hint = _hint(self.length, axis)
        self.new: dict[Value, Value] = {}

    def build(self) -> Kernel:
        for value in self.kernel.body:
            self.new[value] = self._rewritten(value, tuple(self.new[arg] for arg in value.args))
        axes = tuple(self._shortened(axis) if axis.name == self.axis else axis for axis in self.kernel.axes)
        return replace(self.kernel, axes=axes, body=_needed(list(dict.fromkeys(self.new.values()))))

    def _rewritten(self, value: Value, args: tuple[Value, ...]) -> Value:
        compared = _compared(value)
        if compared is not None and compared[0] == self.axis:
            below = _at_most(self.end, compared[1])
            if below or _at_most(compared[1], self.low):
                return _constant(below == (value.op in _HOLDS_BELOW), torch.bool)
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

    def _shortened(self, axis: Axis) -> Axis:
        return replace(axis, size=self.length, hint=self.hint)

    def _shifted(self, index: Affine) -> Affine:
        return Affine(index.terms, index.offset + index.coefficient(self.axis) * self.low)


def _hint(length: Dim, axis: Axis) -> int:
    """What the length was while tracing, as far as the axis tells: half of a row of 64 is 32."""
    size: Any = axis.size
    if isinstance(length, int) or not getattr(size, "is_Symbol", False) or free_symbols(length) != {size.name}:
        return length if isinstance(length, int) else axis.hint
    return evaluate(length, {size.name: axis.hint})


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
