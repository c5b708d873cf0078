"""Rows that start anywhere: lanes are counted from the 16-byte address before the row.

In: a kernel whose rows lie one after another, and are of an odd length, so that only one in four (of float32) starts at
an address of 16 bytes: GPT-2's vocabulary has 50257 words. Out: `Skew`, or None where that does not help.

A row's lanes are moved back by `skew`, 0 to 3 elements of float32: then all blocks of lanes but the first and the last
are read and written 16 bytes at a time. The first reads up to 3 elements of the row before, and drops them."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel_ir import Affine, Kernel, Value
from .stages import row_stages


@dataclass(frozen=True)
class Skew:
    """How rows that start anywhere lie to addresses that a vector may be loaded from.

    Attributes:
        period: elements in 16 bytes of the narrowest operand.
        start: where a row starts, as far as it matters modulo the period.
    """

    period: int
    start: Affine


def skew_of(kernel: Kernel, first: int) -> Skew | None:
    """The skew, if all that is read and written along the row has the same, and it differs from row to row.

    The first block, of `first` lanes, may begin before the row, and so must not reach beyond it."""
    reduce = kernel.of_kind("reduce")
    if len(reduce) != 1 or not isinstance(reduce[0].size, int) or reduce[0].size < first:
        return None
    along = reduce[0].name
    block = row_stages(kernel).block
    walked = [value for value in block if value.op in ("load", "store")]
    if not walked or any(value.op in ("scan", "index", "check") for value in block) or any(map(_is_gather, walked)):
        return None
    period = max(16 // value.attrs["buffer"].dtype.itemsize for value in walked)
    starts = {_start(value.attrs["index"], along, period) for value in walked}
    start = next(iter(starts))
    return Skew(period, start) if len(starts) == 1 and start is not None and start.terms else None


def _is_gather(value: Value) -> bool:
    return value.op == "load" and bool(value.args)


def _start(index: Affine, along: str, period: int) -> Affine | None:
    """The index of a row's first element modulo the period; None if it is unknown, or lanes do not lie side by side."""
    numbers = [*(coefficient for _, coefficient in index.terms), index.offset]
    if not index.is_contiguous(along) or not all(isinstance(number, int) for number in numbers):
        return None
    terms = ((name, coefficient % period) for name, coefficient in index.terms if name != along)
    return Affine(tuple(term for term in terms if term[1] != 0), index.offset % period)
