"""What softmaxes are made of: exp(x - max(x)), and the sum of it along the row.

In: values of a kernel. Out: whether they are that, for both back ends to compute them with less.

* The exponential's argument is a difference that has been rounded, so it is as wrong as 2⁻²⁴ of itself whatever exp
  does; the hardware's exp2 of its multiple adds no more than that again, in three instructions of libdevice's ten.
* The sum holds an exp(0), unless it is NaN: it has a reciprocal.
* Maximum and sum of a row too long to be kept can be computed in one pass ("online")."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .kernel_ir import Value, sinks

PER_LANE = 4
"""Elements of a step that share a running maximum and sum (`mc_online_sum`): it is rescaled once for all of them."""


def maximum_below(value: Value) -> Value | None:
    """For exp(x - max(x)) of float32, the reduction max(x); else None.

    `torch.logsumexp` has a zero in the place of infinite maxima: then, too."""
    if value.op != "exp" or value.dtype != torch.float32 or value.args[0].op != "sub":
        return None
    x, top = value.args[0].args
    largest = top.args[2] if is_finite_maximum(top) else top
    is_maximum = largest.op == "reduce" and largest.attrs["kind"] == "amax" and largest.args[0] is x
    return largest if is_maximum else None


def is_finite_maximum(top: Value) -> bool:
    """where(isinf(m), 0, m)"""
    if top.op != "where" or top.args[0].op != "isinf":
        return False
    return top.args[0].args[0] is top.args[2] and top.args[1].op == "const" and top.args[1].attrs["value"] == 0


def sums_to_one_or_more(value: Value) -> bool:
    """Whether this is the sum along a row of exp(x - max(x)), so at least 1, or NaN."""
    if value.op != "reduce" or value.attrs["kind"] != "sum":
        return False
    largest = maximum_below(value.args[0])
    return largest is not None and value.args[0].args[0].args[1] is largest


def online_sum(loops: Sequence[Sequence[Value]], k: int) -> Value | None:
    """The sum that loop k + 1 is for, if it and the maximum that loop k is for can be computed together."""
    if k + 1 >= len(loops):
        return None
    here, there = map(sinks, loops[k : k + 2])
    if len(here) != 1 or len(there) != 1 or there[0].op != "reduce":
        return None
    largest, total = here[0], there[0]
    is_sum = total.attrs["kind"] == "sum" and total.dtype == largest.dtype == torch.float32
    return total if is_sum and maximum_below(total.args[0]) is largest else None
