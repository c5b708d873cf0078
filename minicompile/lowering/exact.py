"""`config.exact`: which calls a kernel may compute, if the numbers have to be eager's to the last bit.

In: a recorded call. Out: whether a generated kernel gives ATen's very bits for it: copies, comparisons, and the
operations that IEEE 754 rounds in one way only. Everything else is left to ATen: functions that a library approximates
(exp, log, sin), reductions (ATen adds in an order of its own), matrix products, random numbers (ATen's stream).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Call

COPIES = frozenset(
    {
        "permute", "transpose", "t", "numpy_T", "expand", "slice", "narrow", "select", "view", "_unsafe_view",
        "reshape", "squeeze", "unsqueeze", "alias", "detach", "lift_fresh", "clone", "copy", "_to_copy",
        "contiguous", "cat", "stack", "select_scatter", "slice_scatter", "tril", "triu", "index",
        "index_select", "embedding", "gather", "unfold", "diagonal", "constant_pad_nd", "flip", "full",
        "full_like", "new_full", "ones", "ones_like", "zeros", "zeros_like", "scalar_tensor", "fill", "eye",
        "where", "masked_fill", "split", "split_with_sizes", "unbind", "as_strided", "repeat", "movedim",
        "convert_element_type", "_reshape_alias", "new_zeros", "new_ones", "empty_like",
    }
)  # fmt: skip
ROUNDED_ONCE = frozenset(
    {
        "add", "sub", "rsub", "mul", "div", "neg", "abs", "sign", "maximum", "minimum", "relu", "floor", "ceil",
        "trunc", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "logical_not", "logical_and",
        "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor",
    }
)  # fmt: skip
"""No square roots: on CPUs ATen asks MKL, which rounds some of them otherwise than the processor."""

_ON_CPU_ONLY = frozenset({"div"})
"""On GPUs, ATen divides by a scalar by multiplying with its inverse."""


def may_compute(call: Call) -> bool:
    """Whether a kernel computes the call to ATen's bits."""
    name = call.func._schema.name.split("::")[-1]
    if name in COPIES:
        return True
    if name not in ROUNDED_ONCE or call.kwargs.get("alpha", 1) != 1 or _has_alpha(call, name):
        return False
    return name not in _ON_CPU_ONLY or all(getattr(fake, "device", _CPU).type == "cpu" for fake in call.results)


def _has_alpha(call: Call, name: str) -> bool:
    """`rsub(x, y, alpha)`: ATen multiplies and adds in one rounding. A rounding mode of `div` is a keyword too."""
    return (name == "rsub" and len(call.args) > 2) or call.kwargs.get("rounding_mode") is not None


class _Cpu:
    type = "cpu"


_CPU = _Cpu()
