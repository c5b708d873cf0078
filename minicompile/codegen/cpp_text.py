"""How single values are spelled in C++: types, literals, casts, one instruction's expression.

In: values of the kernel IR and the names of their operands. Out: C++ expressions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..ir.ops import POINTWISE
from ..ir.symbols import dim_text, is_float_symbol
from ..ir.types import dtype_kind
from .kernel_ir import Value, place_text

CPP_TYPES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.int16: "int16_t",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.bool: "unsigned char",
    torch.bfloat16: "uint16_t",
    torch.float16: "uint16_t",
}
"""In memory. Registers never hold the last two."""

_HALF = {torch.bfloat16: "bf16", torch.float16: "half"}


def literal(value: Any, dtype: torch.dtype) -> str:
    """A constant of a register dtype. A float is rounded from double, as eager rounds a Python scalar."""
    if dtype is torch.bool:
        return f"(unsigned char){int(value)}"
    if not dtype.is_floating_point:
        low = torch.iinfo(dtype).min
        text = f"({low + 1}LL - 1)" if value == low else f"{value}LL"
        return f"({CPP_TYPES[dtype]}){text}"
    if math.isnan(value):
        text = '__builtin_nan("")'
    elif math.isinf(value):
        text = "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    else:
        text = repr(float(value))
    return f"({CPP_TYPES[dtype]}){text}"


def size_declaration(symbol: str, index: int) -> str:
    """The declaration of a size symbol, or of a float that was passed as the bits of its double."""
    if is_float_symbol(symbol):
        return f"const double {symbol} = mc_double((uint64_t)sizes[{index}]);"
    return f"const int64_t {symbol} = sizes[{index}];"


def element_text(value: Value) -> str:
    """The place of a direct load or a store."""
    return f"{value.attrs['buffer'].name}[{value.attrs['index'].text('cpp')}]"


def load_text(dtype: torch.dtype, place: str) -> str:
    return f"mc_from_{_HALF[dtype]}({place})" if dtype in _HALF else place


def store_text(dtype: torch.dtype, value: str) -> str:
    return f"mc_to_{_HALF[dtype]}({value})" if dtype in _HALF else value


def cast_text(arg: str, source: torch.dtype, target: torch.dtype) -> str:
    """From a register dtype to `target`; to a half type means rounding a float register.

    gcc vectorises no conversion of a comparison to floating point, but a choice it does: ten times as fast."""
    if source is torch.bool and target.is_floating_point:
        one = CPP_TYPES[target]  # 1 and 0 need no rounding
        return f"{arg} ? ({one})1 : ({one})0"
    if target in _HALF:
        value = arg if source == torch.float32 else f"(float){arg}"
        return f"mc_round_{_HALF[target]}({value})"
    if target is torch.bool:
        return f"(unsigned char)({arg} != 0)"
    if source.is_floating_point and not target.is_floating_point:
        return f"mc_cast_int<{CPP_TYPES[target]}>({arg})"
    return f"({CPP_TYPES[target]}){arg}"


def _guarded(text: str, arg: str, cast: Value) -> str:
    """A computed integer on its way to floating point: gcc 12 takes `(float)(int)x` for trunc(x), which is -0.0 where
    the integer is 0."""
    source = cast.args[0]
    computed = dtype_kind(source.dtype) == "i" and source.op not in ("load", "index", "const", "size")
    if not computed or not cast.dtype.is_floating_point:
        return text
    return f"{arg} == 0 ? ({CPP_TYPES[cast.dtype]})0 : {text}"


def expression(value: Value, args: list[str]) -> str:
    """The right-hand side of an instruction other than reduce and store."""
    attrs = value.attrs
    if value.op == "load":
        text = load_text(attrs["buffer"].dtype, f"{attrs['buffer'].name}[{place_text(value, args, 'cpp')}]")
        return f"{args[-1]} ? {text} : ({CPP_TYPES[value.dtype]})0" if attrs.get("masked") else text
    if value.op == "check":
        size = dim_text(attrs["dim"], "cpp")
        return f"mc_check_index({args[0]}, {size}, {size if attrs['wrap'] else 0}, &bad_index)"
    if value.op == "const":
        return literal(attrs["value"], value.dtype)
    if value.op == "index":
        return attrs["index"].text("cpp")
    if value.op == "size":
        return dim_text(attrs["dim"], "cpp")
    if value.op == "cast":
        return _guarded(cast_text(args[0], value.args[0].dtype, attrs["dtype"]), args[0], value)
    if is_quotient_of_integers(value):
        return f"mc_divide({', '.join(args)})"
    operand = value.args[-1].dtype
    text = POINTWISE[value.op].text("cpp", dtype_kind(operand))
    return text.format(*args, t=CPP_TYPES[operand])


def is_quotient_of_integers(value: Value) -> bool:
    """Whether this is an integer, converted, over a constant: nothing over- or underflows, and `mc_divide` is exact.
    Its proof leaves out divisors whose mantissa is all ones."""
    if value.op != "div" or value.args[0].op != "cast" or value.args[1].op != "const":
        return False
    divisor = torch.tensor(value.args[1].attrs["value"], dtype=value.dtype).item()
    whole = value.dtype in (torch.float32, torch.float64) and dtype_kind(value.args[0].args[0].dtype) == "i"
    mantissa = math.frexp(divisor)[0]
    return whole and 2.0**-60 < abs(divisor) < 2.0**60 and abs(mantissa) + torch.finfo(value.dtype).eps / 2 < 1


_FAST = {
    "sin": "mc_is_far", "cos": "mc_is_far",
    "fmod": "mc_quotient_is_far", "remainder": "mc_quotient_is_far", "floor_divide": "mc_quotient_is_far",
}  # fmt: skip
"""Operations with a fast form, `mc_OP_fast`, and what says that arguments are beyond it."""


def has_fast_form(value: Value) -> bool:
    """Whether a fast function does all but distant arguments of this instruction. A loop that uses it may be run twice,
    so it must not overwrite what it reads."""
    return value.op in _FAST and value.dtype is torch.float32


def fast_text(op: str, args: Sequence[str]) -> str:
    """The fast form; it adds to the loop's `far` whether the arguments are beyond it."""
    given = ", ".join(args)
    return f"(far |= {_FAST[op]}({given}), mc_{op}_fast({given}))"
