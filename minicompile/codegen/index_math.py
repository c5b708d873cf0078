"""Index arithmetic on integer instructions: `i - 3` and `2*i + k` are again affine in the axes.

In: an int64 `add`, `sub`, `mul` or `neg` over instructions that are affine (`index`), constants or sizes.
Out: the affine form, or None. So the indices of a pad or a window, which lowering spells as arithmetic on `iota`,
become plain index expressions, and their gathers plain loads. Wrap-around does not matter: both sides wrap alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..ir.types import Dim
from .kernel_ir import Affine, Value

OPS = ("add", "sub", "mul", "neg")


def affine_of(value: Value) -> Affine | None:
    """The value as an affine expression of the axes, if it is one."""
    if value.dtype != torch.int64:
        return None
    if value.op == "index":
        index: Affine = value.attrs["index"]
        return index
    if value.op == "const":
        return Affine((), int(value.attrs["value"]))
    return Affine((), value.attrs["dim"]) if value.op == "size" else None


def folded(op: str, args: Sequence[Value]) -> Affine | None:
    """`op` of affine values, if that is affine."""
    if op not in OPS:
        return None
    parts = [part for part in map(affine_of, args) if part is not None]
    if len(parts) != len(args):
        return None
    if op == "neg":
        return scaled(parts[0], -1)
    if op == "mul":
        factor, other = (parts[0], parts[1]) if not parts[0].terms else (parts[1], parts[0])
        return None if factor.terms else scaled(other, factor.offset)
    return added(parts[0], parts[1] if op == "add" else scaled(parts[1], -1))


def scaled(index: Affine, factor: Dim) -> Affine:
    """The index times a size."""
    terms = tuple((axis, c * factor) for axis, c in index.terms if factor != 0)
    return Affine(terms, index.offset * factor)


def added(one: Affine, other: Affine) -> Affine:
    """The sum; axes in order of first appearance, terms that cancel left out."""
    sums: dict[str, Dim] = {}
    for axis, coefficient in (*one.terms, *other.terms):
        sums[axis] = sums.get(axis, 0) + coefficient
    return Affine(tuple((axis, c) for axis, c in sums.items() if c != 0), one.offset + other.offset)
