"""Rules for special functions: rows of ir/special_ops.py, and what is made of them.

Half precision is computed in float32 and rounded once, as in eager.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ir.graph import Node
from ..ir.special_ops import SPECIAL
from ..ir.types import dtype_kind
from .emit import opmath
from .errors import NotConvertible
from .rules import has_operator, rule
from .rules_pointwise import floats_only


def _of_floats(name: str) -> Any:
    def convert(c: Any, *args: Any) -> Node:
        floats_only(c, *args)
        args = c.promote(c.out.dtype, *args)
        return c.pointwise(name, *(float(arg) if isinstance(arg, int) else arg for arg in args))

    return convert


def _register_rows() -> None:
    """Each row is `special_NAME` or `NAME` in ATen, with up to four overloads for tensors and scalars."""
    for row in SPECIAL:
        for name in (row.name, f"special_{row.name}"):
            if "f" in row.kinds and row.name not in ("polygamma", "nextafter") and has_operator(name):
                rule(name)(_of_floats(row.name))


_register_rows()


@rule("nextafter.default")
def nextafter(c: Any, x: Node, y: Node) -> Node:
    if opmath(c.out.dtype) is not c.out.dtype:
        raise NotConvertible("the neighbour of a half-precision number is not that of a float")
    return c.nextafter(*c.promote(c.out.dtype, x, y))


@rule("polygamma.default")
def polygamma(c: Any, order: int, x: Node) -> Node:
    floats_only(c, x)
    if order < 2:
        return c.pointwise(("digamma", "trigamma")[order], x)
    return c.polygamma(x, float(order))


@rule("gcd.default")
def gcd(c: Any, x: Node, y: Node) -> Node:
    return c.gcd(*c.promote(c.out.dtype, x, y))


@rule("lcm.default")
def lcm(c: Any, x: Node, y: Node) -> Node:
    """`|x / gcd * y|`, and 0 of two zeros."""
    if dtype_kind(c.out.dtype) != "i":
        raise NotConvertible("the least common multiple of bools")
    x, y = c.promote(c.out.dtype, x, y)
    divisor = c.gcd(x, y)
    return c.abs(c.mul(c.trunc_divide(x, c.where(c.eq(divisor, 0), 1, divisor)), y))


@rule("special_entr.default")
def entr(c: Any, x: Node) -> Node:
    """`-x log x`; 0 at 0, -inf below, NaN stays."""
    floats_only(c, x)
    wide = c.upcast(x)
    below = c.where(c.eq(wide, 0), 0.0, c.where(c.isnan(wide), wide, _low(c, wide)))
    return c.cast(c.where(c.gt(wide, 0), c.neg(c.mul(wide, c.log(wide))), below), c.out.dtype)


def _low(c: Any, like: Node) -> Node:
    return c.expand(c.full(float("-inf"), like.tensor.like(shape=())), like.tensor.shape)


@rule("sinc.default")
def sinc(c: Any, x: Node) -> Node:
    floats_only(c, x)
    if c.out.dtype is torch.float64:
        raise NotConvertible("pi times a double is rounded elsewhere in eager")
    wide = c.mul(c.upcast(x), 3.14159265358979323846)
    return c.cast(c.where(c.eq(wide, 0), 1.0, c.div(c.sin(wide), wide)), c.out.dtype)
