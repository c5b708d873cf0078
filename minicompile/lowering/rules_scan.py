"""Rules for running sums and products, and for the places of extrema.

The place of an extremum is the smallest index at which the row has the value of the extremum: two reductions of one
kernel. NaN is the largest and the smallest value at once, as in eager.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Node
from ..ir.types import dtype_kind
from .rules import rule
from .rules_reduction import refuse_extremum_of_nothing


def _scan(op: str) -> Any:
    def convert(c: Any, x: Node, dim: int, dtype: Any = None) -> Node:
        x = c.cast(x, c.out.dtype)
        return c.scan(op, x, dim % x.tensor.rank) if x.tensor.rank else x

    return convert


rule("cumsum.default")(_scan("cumsum"))
rule("cumprod.default")(_scan("cumprod"))


def extremum_with_place(c: Any, op: str, x: Node, dim: int) -> tuple[Node, Node]:
    """The largest ("amax") or smallest ("amin") value along `dim`, and its first place, the dimension kept."""
    best = c.reduce(op, x, (dim,))
    found = c.eq(x, best)
    if dtype_kind(x.tensor.dtype) == "f":
        found = c.logical_or(found, c.isnan(x))  # a row with NaN has best = NaN, which equals nothing
    place = c.positions(x.tensor.shape, dim, x.tensor.device)
    place = c.where(found, place, x.tensor.shape[dim])
    return best, c.reduce("amin", place, (dim,))


def _place(op: str) -> Any:
    def convert(c: Any, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
        if x.tensor.rank == 0:
            return c.full(0, c.out)
        flat = dim is None
        x = c.reshape(x, (x.tensor.numel,)) if flat else x
        axis = 0 if flat else dim % x.tensor.rank
        return c.reshape(extremum_with_place(c, op, x, axis)[1], c.out.shape)

    return convert


rule("argmax.default")(_place("amax"))
rule("argmin.default")(_place("amin"))


def _with_place(op: str) -> Any:
    def convert(c: Any, x: Node, dim: int, keepdim: bool = False) -> list[Node | None]:
        if x.tensor.rank == 0:
            return [x, c.full(0, c.outs[1])]
        dim %= x.tensor.rank
        refuse_extremum_of_nothing(x, (dim,))
        if c.is_used(1):
            best, place = extremum_with_place(c, op, x, dim)
            return [c.reshape(best, c.out.shape), c.reshape(place, c.out.shape)]
        return [c.reshape(c.reduce(op, x, (dim,)), c.out.shape), None]

    return convert


rule("max.dim")(_with_place("amax"))
rule("min.dim")(_with_place("amin"))
