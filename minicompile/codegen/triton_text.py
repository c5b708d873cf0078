"""How single values are spelled in Triton: types, constants, casts, one instruction's expression.

In: values of the kernel IR and the names of their operands. Out: Python expressions over `tl`.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..ir.ops import POINTWISE
from ..ir.types import dtype_kind
from .kernel_ir import Value

TL_TYPES = {
    torch.float64: "tl.float64",
    torch.float32: "tl.float32",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.int64: "tl.int64",
    torch.int32: "tl.int32",
    torch.int16: "tl.int16",
    torch.int8: "tl.int8",
    torch.uint8: "tl.uint8",
    torch.bool: "tl.int1",
}

POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.int16: "*i16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}

COMBINE = {
    "sum": "mc_add", "prod": "mc_mul", "amax": "mc_maximum", "amin": "mc_minimum", "any": "mc_or", "all": "mc_and",
    "add": "mc_add", "mul": "mc_mul",
}
"""Reduction, or a scan's `combine` → the prelude's function that joins two values."""


def scalar(value: Any, dtype: torch.dtype) -> str:
    """A number as Triton reads it; True is 1."""
    if dtype is torch.bool:
        return str(int(value))
    if dtype.is_floating_point:
        value = float(value)
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    return str(int(value))


def constant(value: Any, dtype: torch.dtype, rank: int) -> str:
    """A one-element block: it has a dtype, which a bare Python number would not."""
    return f"tl.full([{', '.join(['1'] * rank)}], {scalar(value, dtype)}, {TL_TYPES[dtype]})"


def cast_text(arg: str, target: torch.dtype, register: torch.dtype) -> str:
    """A value rounded to `target`, in the dtype in which registers hold that."""
    if target is torch.bool:
        return f"({arg} != 0)"
    text = f"{arg}.to({TL_TYPES[target]})"
    return text if target == register else f"{text}.to({TL_TYPES[register]})"


def operation(value: Value, args: list[str]) -> str:
    """A row of the op table."""
    operand = value.args[-1].dtype
    text = POINTWISE[value.op].text("triton", dtype_kind(operand))
    return text.format(*args, t=TL_TYPES[operand])
