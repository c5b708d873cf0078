"""NumPy's scalars: numbers that are known while tracing.

In: scalars from outside or made of constants, calls of NumPy's functions with constants alone. Out: constants. Next to
a tensor they are the Python numbers that torch takes them for, next to an array 0-dimensional arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...guards.constants import is_numpy_number
from ..breaks import unsupported_call
from .base import Kwargs, NotConstant, Value
from .constant import ConstantValue
from .containers import SequenceValue

if TYPE_CHECKING:
    from ..tracer import Tracer

_KEEPS_THE_DTYPE = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor"})
"""Functions for which a scalar of NumPy is more than a Python number."""


def python_number(value: Any) -> Any:
    """What torch takes a constant for. Raises Break for NumPy's booleans, which are floats to it or nothing at all."""
    if not is_numpy_number(value):
        return value
    if isinstance(value.item(), bool):
        raise unsupported_call("a torch function", "gets a boolean of NumPy's")
    return value.item()


def with_dtype(tr: Tracer, name: str, args: list[Value], kwargs: Kwargs) -> tuple[list[Value], Kwargs]:
    """The arguments of the torch function `name`, where a dtype says what a scalar of NumPy says by itself."""
    if name not in _KEEPS_THE_DTYPE or not args:
        return args, kwargs
    data = args[0].realize(tr)
    if isinstance(data, SequenceValue) and any(_holds_a_scalar(tr, item) for item in data.elements):
        raise unsupported_call(f"torch.{name}()", "gets a list of NumPy's scalars")
    if not isinstance(data, ConstantValue) or not is_numpy_number(data.value) or len(args) > 1 or "dtype" in kwargs:
        return args, kwargs
    return [ConstantValue(data.value.item())], {**kwargs, "dtype": ConstantValue(torch_dtype(data.value))}


def _holds_a_scalar(tr: Tracer, item: Value) -> bool:
    value = item.realize(tr)
    if isinstance(value, SequenceValue):
        return any(_holds_a_scalar(tr, element) for element in value.elements)
    return isinstance(value, ConstantValue) and is_numpy_number(value.value)


def torch_dtype(scalar: Any) -> torch.dtype:
    """The dtype of a scalar of NumPy's."""
    import numpy

    return torch.from_numpy(numpy.array(scalar)).dtype


def as_operand(tr: Tracer, scalar: Any) -> Value:
    """A scalar as an operand of torch's NumPy: a 0-dimensional tensor."""
    parts: dict[str, Value] = {"dtype": ConstantValue(torch_dtype(scalar))}
    return tr.torch_call(torch.full, [SequenceValue(tuple, []), ConstantValue(scalar.item())], parts)


def folded(tr: Tracer, function: Any, args: list[Value], kwargs: Kwargs) -> Value | None:
    """The number that a function of NumPy gives for constants; None if an argument is none, or an array comes out."""
    import numpy

    try:
        values = [_constant(tr, arg) for arg in args]
        named = {key: _constant(tr, value) for key, value in kwargs.items()}
        with numpy.errstate(all="raise"):
            result = function(*values, **named)
    except Exception:  # an array among them; or it raises or warns, and is left to be called for real
        return None
    return ConstantValue(result) if is_numpy_number(result) or type(result) in (int, float, bool) else None


def _constant(tr: Tracer, value: Value) -> Any:
    found = value.realize(tr).const(tr)
    if isinstance(found, (list, tuple)) and not all(map(_is_number, found)):
        raise NotConstant
    return found


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, bool) or is_numpy_number(value)


__all__ = ["as_operand", "folded", "python_number", "torch_dtype", "with_dtype"]
